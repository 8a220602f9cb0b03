package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox/control"
)

const (
	appBook = "sandbox-book" // the ConfigMap of an owner's bookings
	bookKey = "bookings"
)

// book is one owner's, as this replica last wrote or read it. The ConfigMap's version orders
// the changes of all replicas; mu only spares those of one replica their conflicts.
type book struct {
	mu   sync.Mutex
	last *corev1.ConfigMap
}

// bookName holds no more of an owner than a name may.
func bookName(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return "sandbox-book-" + hex.EncodeToString(sum[:10])
}

// Book implements control.Booker.
func (r *Runtime) Book(ctx context.Context, owner string, change func(map[string]control.Booking) error) error {
	r.mu.Lock()
	b := r.books[owner]
	if b == nil {
		b = &book{}
		r.books[owner] = b
	}
	r.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for fresh := false; ; {
		if b.last == nil {
			var err error
			if b.last, err = r.fetchBook(ctx, owner); err != nil {
				return fmt.Errorf("look up what %s starts: %w", owner, err)
			}
			fresh = true
		}
		m := b.last.DeepCopy()
		bookings := map[string]control.Booking{}
		if raw := m.Data[bookKey]; raw != "" {
			if err := json.Unmarshal([]byte(raw), &bookings); err != nil {
				return fmt.Errorf("read ConfigMap %s: %w", m.Name, err)
			}
		}
		if err := change(bookings); err != nil {
			if fresh {
				return err
			}
			b.last = nil // what is said of an old state need not hold now
			continue
		}
		raw, err := json.Marshal(bookings)
		if err != nil {
			return err
		}
		m.Data = map[string]string{bookKey: string(raw)}
		write := r.updateMap
		if m.ResourceVersion == "" {
			write = r.createMap
		}
		b.last, err = write(ctx, m)
		if err == nil {
			return nil
		}
		b.last, fresh = nil, false // whether it was written the next look tells
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("write down what %s starts: %w", owner, err)
		}
	}
}

// fetchBook is an owner's book as the cluster has it, or a new one.
func (r *Runtime) fetchBook(ctx context.Context, owner string) (*corev1.ConfigMap, error) {
	m, err := r.getMap(ctx, bookName(owner))
	if apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: bookName(owner), Namespace: r.opts.Namespace, Labels: map[string]string{labelApp: appBook},
		}}, nil
	}
	return m, err
}
