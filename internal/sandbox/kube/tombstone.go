package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox"
	"orchard/internal/sandbox/control"
)

// tombstoneLife is how long an ended sandbox stays known.
const tombstoneLife = time.Hour

// tombstoneKey is where a ConfigMap has its record.
const tombstoneKey = "end"

// tombstone is the record of an end. Times are RFC 3339.
type tombstone struct {
	UID       string       `json:"uid"`
	Reason    string       `json:"reason"`
	Message   string       `json:"message"`
	Spec      sandbox.Spec `json:"spec"`          // without Env
	Pod       string       `json:"pod,omitempty"` // its name, when that is not its id's
	Host      string       `json:"host,omitempty"`
	Created   time.Time    `json:"created"`
	Scheduled time.Time    `json:"scheduled,omitzero"`
	Ready     time.Time    `json:"ready,omitzero"`
	Ended     time.Time    `json:"ended"`
	Expires   time.Time    `json:"expires,omitzero"`
	// Held is how many seconds a machine held resources for it.
	Held float64 `json:"held_seconds"`
	// Jobs are those that had not ended, as far as the agent could still be asked.
	Jobs []string `json:"open_jobs,omitempty"`

	made time.Time // of the ConfigMap
}

// state is the ended sandbox.
func (t *tombstone) state() control.State {
	return control.State{
		Spec: t.Spec, UID: t.UID, Phase: control.Ended, Reason: t.Reason, Message: t.Message, Created: t.Created,
		Scheduled: t.Scheduled, Ready: t.Ready, Ended: t.Ended, ExpiresAt: t.Expires, Limits: control.LimitsFull,
		Pod: t.Pod, Host: t.Host, Spot: t.Spec.Placement.Spot,
	}
}

// tombstoneOf is the record of st, which e has ended.
func tombstoneOf(st control.State, e end, jobs []string) *tombstone {
	t := &tombstone{
		UID: st.UID, Reason: e.reason, Message: e.message, Spec: st.Spec, Pod: st.Pod, Host: st.Host, Created: st.Created,
		Scheduled: st.Scheduled, Ready: st.Ready, Ended: e.at, Expires: st.ExpiresAt, Jobs: jobs,
	}
	t.Spec.Env = nil
	if !t.Scheduled.IsZero() && t.Ended.After(t.Scheduled) {
		t.Held = t.Ended.Sub(t.Scheduled).Seconds()
	}
	return t
}

// write makes t the record of its sandbox's end, unless there is one: then that one is
// returned, for the first to write decides.
func (r *Runtime) write(ctx context.Context, t *tombstone) (*tombstone, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode the end of sandbox %s: %w", t.Spec.ID, err)
	}
	maps := r.client.CoreV1().ConfigMaps(r.opts.Namespace)
	name := tombstoneName(t.Spec.ID, t.UID)
	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: r.opts.Namespace,
			Labels: map[string]string{labelApp: appTombstone, labelID: t.Spec.ID},
		},
		Data: map[string]string{tombstoneKey: string(raw)},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = maps.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("write the end of sandbox %s: %w", t.Spec.ID, err)
	}
	return readTombstone(made)
}

func readTombstone(m *corev1.ConfigMap) (*tombstone, error) {
	t := &tombstone{}
	if err := json.Unmarshal([]byte(m.Data[tombstoneKey]), t); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", m.Name, err)
	}
	t.Spec.ID, t.made = idOf(m), m.CreationTimestamp.Time
	return t, nil
}
