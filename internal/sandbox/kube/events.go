package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/sandbox/control"
)

// eventTypes are the cluster's reasons by the words that we keep stable; any other reason
// is written small, with underscores.
var eventTypes = map[string]string{
	"FailedScheduling": "unschedulable", "BackOff": "back_off", "OOMKilling": "oom", "SystemOOM": "oom",
	"Preempting": "preempted", "FailedCreatePodSandBox": "failed", "FailedMount": "failed",
	"InspectFailed": "failed", "ErrImageNeverPull": "failed",
}

// Events implements control.Eventer: what scheduler and kubelet reported, and between that
// when the sandbox was asked for, ready and over.
func (r *Runtime) Events(ctx context.Context, id string) ([]control.Event, error) {
	st, err := r.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	reported, err := r.reported(ctx, st.UID)
	if err != nil {
		return nil, fmt.Errorf("list events of sandbox %s: %w", id, err)
	}
	all := []control.Event{{At: st.Created, Type: "accepted", Count: 1}}
	for _, e := range reported {
		all = append(all, control.Event{At: eventTime(e), Type: eventType(e.Reason), Message: text(e.Message, e.Reason), Count: eventCount(e)})
	}
	if !st.Ready.IsZero() {
		all = append(all, control.Event{At: st.Ready, Type: "ready", Message: "its agent answers", Count: 1})
	}
	if st.Phase == control.Ended {
		all = append(all, control.Event{At: st.Ended, Type: "ended", Message: strings.TrimSuffix(st.Reason+": "+st.Message, ": "), Count: 1})
	}
	slices.SortStableFunc(all, func(a, b control.Event) int { return a.At.Compare(b.At) })
	return all, nil
}

// reported is the cluster's own events of a Pod.
func (r *Runtime) reported(ctx context.Context, uid string) ([]corev1.Event, error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	list, err := r.client.CoreV1().Events(r.opts.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + uid})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func eventType(reason string) string {
	if t, ok := eventTypes[reason]; ok {
		return t
	}
	var b strings.Builder
	for i, c := range reason {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// eventTime is when it last happened; its series has it, or one of two older fields.
func eventTime(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

func eventCount(e corev1.Event) int {
	if e.Series != nil {
		return max(1, int(e.Series.Count))
	}
	return max(1, int(e.Count))
}
