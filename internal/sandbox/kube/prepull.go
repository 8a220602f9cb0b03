package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox/control"
)

const (
	appPrepull   = "sandbox-prepull"     // a pre-pull's ConfigMap and Pods
	labelPrepull = "orchard.dev/prepull" // whose they are
	prepullKey   = "prepull"             // where the ConfigMap has its record
	mostPulls    = 4000                  // of one pre-pull: its record must fit a ConfigMap
	mostOutcome  = 500 << 10             // bytes of all messages in a record, as it has them
)

// prepull is what is known of a pre-pull: a ConfigMap and, for each image on each machine
// that is being pulled, a Pod. A result is in the record before its Pod is deleted, so
// whoever finds neither knows that nobody has begun.
type prepull struct {
	Prepull control.Prepull    `json:"prepull"`
	Nodes   []string           `json:"nodes"`
	Done    map[string]outcome `json:"done"` // by cell
	Ended   time.Time          `json:"ended,omitzero"`

	id   string
	from *corev1.ConfigMap
}

// outcome is how one pull ended: without a reason the image is there.
type outcome struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

func prepullObject(id string) string { return "sandbox-prepull-" + id }

// cell is one image on one machine, by their places in the record.
func cell(image, node int) string { return fmt.Sprintf("%d.%d", image, node) }

// prepullPodName is one name per cell, so that of several who make it one does.
func prepullPodName(id, cell string) string {
	return "prepull-" + id + "-" + strings.ReplaceAll(cell, ".", "-")
}

// each calls f for every pull, image by image, so that machines work side by side.
func (p *prepull) each(f func(cell, image, node string)) {
	for i, image := range p.Prepull.Images {
		for n, node := range p.Nodes {
			f(cell(i, n), image, node)
		}
	}
}

// finish writes down how a pull ended.
func (p *prepull) finish(cell string, o outcome) {
	most := min(mostText, mostOutcome/(len(p.Prepull.Images)*len(p.Nodes)))
	for {
		raw, err := json.Marshal(o.Message)
		if err != nil || len(raw) <= most {
			break
		}
		o.Message = strings.ToValidUTF8(o.Message[:min(len(o.Message)-1, len(o.Message)*(most-8)/len(raw))], "") + "…"
	}
	p.Done[cell] = o
}

func (p *prepull) deadline() time.Time {
	return p.from.CreationTimestamp.Add(p.Prepull.Timeout)
}

func readPrepull(m *corev1.ConfigMap) (*prepull, error) {
	p := &prepull{id: m.Labels[labelPrepull], from: m}
	if err := json.Unmarshal([]byte(m.Data[prepullKey]), p); err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", m.Name, err)
	}
	if p.Done == nil {
		p.Done = map[string]outcome{}
	}
	return p, nil
}

func (p *prepull) data() (map[string]string, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode pre-pull %s: %w", p.id, err)
	}
	return map[string]string{prepullKey: string(raw)}, nil
}

// observePrepull takes in a pre-pull's ConfigMap, or that it is gone: which there are is all
// that is kept of them.
func (r *Runtime) observePrepull(m *corev1.ConfigMap, gone bool) {
	p, err := readPrepull(m)
	if err != nil {
		zerolog.Ctx(r.ctx).Warn().Err(err).Msg("a ConfigMap that looks like a pre-pull is none")
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if gone {
		delete(r.prepulls, p.id)
		return
	}
	r.prepulls[p.id] = p
	select {
	case r.pulls <- struct{}{}:
	default:
	}
}

// Prepull implements control.Prepuller. Which machines it means is settled here.
func (r *Runtime) Prepull(ctx context.Context, want control.Prepull) (control.PrepullState, error) {
	p := &prepull{Prepull: want, Done: map[string]outcome{}, id: want.ID}
	var err error
	if slices.Contains(want.Images, "host") {
		return control.PrepullState{}, refuse(pullSpec(p, "host"), `the image "host" is a machine's own programs, which a cluster does not have`)
	}
	if err := r.chooseNodes(ctx, p); err != nil {
		return control.PrepullState{}, err
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: prepullObject(p.id), Namespace: r.opts.Namespace, Labels: map[string]string{labelApp: appPrepull, labelPrepull: p.id},
	}}
	if m.Data, err = p.data(); err != nil {
		return control.PrepullState{}, err
	}
	made, err := r.createMap(ctx, m)
	switch {
	case apierrors.IsAlreadyExists(err):
		st, err := r.PrepullOf(ctx, p.id)
		return st, errors.Join(err, control.ErrExists)
	case err != nil:
		return control.PrepullState{}, fmt.Errorf("make pre-pull %s: %w", p.id, err)
	}
	p.from = made
	r.observePrepull(made, false)
	return r.prepullState(p, nil), nil
}

// PrepullOf implements control.Prepuller, as the cluster has it now.
func (r *Runtime) PrepullOf(ctx context.Context, id string) (control.PrepullState, error) {
	pods, err := r.prepullPods(ctx, id)
	if err != nil {
		return control.PrepullState{}, err
	}
	p, err := r.fetchPrepull(ctx, id)
	switch {
	case apierrors.IsNotFound(err):
		return control.PrepullState{}, fmt.Errorf("pre-pull %s: %w", id, control.ErrNotFound)
	case err != nil:
		return control.PrepullState{}, fmt.Errorf("look for pre-pull %s: %w", id, err)
	}
	return r.prepullState(p, pods), nil
}

func (r *Runtime) fetchPrepull(ctx context.Context, id string) (*prepull, error) {
	m, err := r.getMap(ctx, prepullObject(id))
	if err != nil {
		return nil, err
	}
	return readPrepull(m)
}

// prepullPods is the Pods of one pre-pull, "" for those of all.
func (r *Runtime) prepullPods(ctx context.Context, id string) ([]corev1.Pod, error) {
	which := selector(appPrepull)
	if id != "" {
		which += "," + labelPrepull + "=" + id
	}
	ctx, cancel := brief(ctx)
	defer cancel()
	list, err := r.client.CoreV1().Pods(r.opts.Namespace).List(ctx, metav1.ListOptions{LabelSelector: which})
	if err != nil {
		return nil, fmt.Errorf("list the Pods of pre-pulls: %w", err)
	}
	return list.Items, nil
}

// Prepulls implements control.Prepuller, as the cluster has them now.
func (r *Runtime) Prepulls(ctx context.Context) ([]control.PrepullState, error) {
	pods, err := r.prepullPods(ctx, "")
	if err != nil {
		return nil, err
	}
	ctx, cancel := brief(ctx)
	defer cancel()
	list, err := r.client.CoreV1().ConfigMaps(r.opts.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector(appPrepull)})
	if err != nil {
		return nil, fmt.Errorf("list pre-pulls: %w", err)
	}
	states := make([]control.PrepullState, 0, len(list.Items))
	for i := range list.Items {
		p, err := readPrepull(&list.Items[i])
		if err != nil {
			return nil, err
		}
		states = append(states, r.prepullState(p, pods))
	}
	slices.SortFunc(states, func(a, b control.PrepullState) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return states, nil
}

// DeletePrepull implements control.Prepuller. Its Pods belong to the ConfigMap and go with it.
func (r *Runtime) DeletePrepull(ctx context.Context, id string) error {
	if err := r.deleteMap(ctx, prepullObject(id)); err != nil {
		return fmt.Errorf("delete pre-pull %s: %w", id, err)
	}
	return nil
}

// prepullState is how p is by its record and those of pods that are its own.
func (r *Runtime) prepullState(p *prepull, pods []corev1.Pod) control.PrepullState {
	st := control.PrepullState{Prepull: p.Prepull, Created: p.from.CreationTimestamp.Time, Ended: p.Ended}
	st.ID = p.id
	byName := map[string]*corev1.Pod{}
	for i := range pods {
		byName[pods[i].Name] = &pods[i]
	}
	p.each(func(cell, image, node string) {
		pull := control.Pull{Image: image, Node: node, Status: control.PullPending}
		o, done := p.Done[cell]
		pod := byName[prepullPodName(p.id, cell)]
		switch {
		case done && o.Reason == "":
			pull.Status = control.PullPresent
		case done:
			pull.Status, pull.Reason, pull.Message = control.PullFailed, o.Reason, o.Message
		case pod == nil:
		case pulled(pod): // and nobody has written that down yet
			pull.Status = control.PullPresent
		case scheduledAt(pod).IsZero():
			pull.Message = pendingText(pod)
		default:
			pull.Status, pull.Message = control.Pulling, pendingText(pod)
		}
		st.Pulls = append(st.Pulls, pull)
	})
	return st
}
