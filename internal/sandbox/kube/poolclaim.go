package kube

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orchard/internal/logx"
	"orchard/internal/sandbox"
)

// A sandbox that is claimed from a pool is two Pods. The ticket has the name that the Pod
// of this id has otherwise, so whoever makes a sandbox of the id, this way or that, meets
// it: names of Pods stay the only lock there is. It holds the spec, environment included,
// and names one warm Pod; it never runs (a scheduling gate), never changes, and goes
// with that Pod (ownerReference). The body is the warm Pod, which becomes the sandbox in
// one update that names the ticket.
//
// A ticket whose warm Pod can still be claimed is completed by whoever meets it, and one
// whose warm Pod cannot be, since it is gone, going or another's, is deleted. That never
// changes back, so of a completed ticket no body is lost, and to a deleted one none comes.
const (
	ticketGate   = "orchard.dev/claim"
	claimTries   = 5
	claimTime    = 2 * time.Second  // for the agent to be told; otherwise it is told in the background
	ticketTime   = 10 * time.Second // for whoever made a ticket to complete it
	annotBody    = "orchard.dev/body"
	annotBodyUID = "orchard.dev/body-uid"
	annotTicket  = "orchard.dev/ticket"  // of a body: its ticket's UID
	annotClaimed = "orchard.dev/claimed" // of a body: when, RFC 3339
	annotPool    = "orchard.dev/from-pool"
	annotShape   = "orchard.dev/shape"
)

// isTicket reports whether a Pod is a ticket.
func isTicket(pod *corev1.Pod) bool { return pod.Labels[labelApp] == appTicket }

// ticketOf is the UID of a body's ticket; "" is no body.
func ticketOf(pod *corev1.Pod) string { return pod.Annotations[annotTicket] }

// ticketFor is the ticket of a claim of body.
func (r *Runtime) ticketFor(spec sandbox.Spec, body *corev1.Pod, attempt string) (*corev1.Pod, error) {
	pod, err := r.opts.podOf(spec, r.key, attempt)
	if err != nil {
		return nil, err
	}
	pod.Labels[labelApp] = appTicket
	pod.Annotations[annotBody], pod.Annotations[annotBodyUID] = body.Name, string(body.UID)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: body.Name, UID: body.UID}}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: ticketGate}}
	pod.Spec.InitContainers, pod.Spec.Volumes, pod.Spec.ActiveDeadlineSeconds = nil, nil, nil
	c := &pod.Spec.Containers[0]
	c.Resources, c.VolumeMounts, c.ReadinessProbe = corev1.ResourceRequirements{}, nil, nil // it holds nothing
	forgo(pod)
	return pod, nil
}

// claimable reports whether body can still become the sandbox of ticket.
func claimable(body, ticket *corev1.Pod) bool {
	return string(body.UID) == ticket.Annotations[annotBodyUID] && poolOf(body) != "" && body.DeletionTimestamp == nil
}

// bodyOf is body as the sandbox of ticket.
func bodyOf(body, ticket *corev1.Pod, spec sandbox.Spec, now time.Time) *corev1.Pod {
	body = body.DeepCopy()
	delete(body.Labels, labelPool)
	delete(body.Labels, labelOwner)
	for _, name := range []string{labelID, labelOwner} {
		if v, ok := ticket.Labels[name]; ok {
			body.Labels[name] = v
		}
	}
	for _, name := range []string{annotSpec, annotAttempt} {
		body.Annotations[name] = ticket.Annotations[name]
	}
	body.Annotations[annotTicket], body.Annotations[annotClaimed] = string(ticket.UID), now.UTC().Format(time.RFC3339Nano)
	start := body.CreationTimestamp.Time
	if t := body.Status.StartTime; t != nil {
		start = t.Time
	}
	deadline := int64(math.Ceil((now.Sub(start) + spec.Lifetime).Seconds()))
	if old := body.Spec.ActiveDeadlineSeconds; old == nil || *old > deadline { // it can only be lowered
		body.Spec.ActiveDeadlineSeconds = &deadline
	}
	return body
}

// claim is a sandbox of spec out of a pool, nil when it must be made: nothing matches, or
// somebody else uses the id, which whoever makes it will then meet.
func (r *Runtime) claim(ctx context.Context, spec sandbox.Spec, attempt string) *entry {
	if spec.OpenNetwork || spec.Egress != nil || spec.Lifetime <= 0 || spec.Lifetime > claimLife {
		return nil
	}
	for range claimTries {
		warm := r.pick(spec)
		if warm == nil {
			return nil
		}
		e, again := r.claimFrom(ctx, spec, warm, attempt)
		r.wakeKeeper()
		if !again {
			return e
		}
	}
	return nil
}

// claimFrom claims warm, which this replica has set aside; again says to try another one.
func (r *Runtime) claimFrom(ctx context.Context, spec sandbox.Spec, warm *entry, attempt string) (e *entry, again bool) {
	log := zerolog.Ctx(r.ctx)
	if !r.serves(ctx, warm) { // it did once; a machine may have gone since
		r.putBack(warm, false)
		return nil, true
	}
	r.mu.Lock()
	body := warm.pod
	r.mu.Unlock()
	ticket, err := r.ticketFor(spec, body, attempt)
	if err == nil {
		ticket, err = r.create(ctx, ticket)
	}
	if err != nil {
		r.putBack(warm, true)
		if !apierrors.IsAlreadyExists(err) {
			log.Debug().Err(err).Str(logx.Sandbox, spec.ID).Msg("no claim")
		}
		return nil, false
	}
	r.observe(ticket, false)
	made, err := r.update(ctx, bodyOf(body, ticket, spec, time.Now()))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // its status changed, or another has it
		made, err = r.settle(ctx, ticket)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, true
	case err != nil: // whoever looks next completes it
		log.Warn().Err(err).Str(logx.Sandbox, spec.ID).Msg("claim of a warm Pod; trying again")
		return nil, false
	}
	e = r.observe(made, false)
	if e == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	r.answers(ctx, e)
	return e, false
}

// serves reports whether the agent of an idle Pod answers now.
func (r *Runtime) serves(ctx context.Context, warm *entry) bool {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	return r.answers(ctx, warm)
}

// pick sets an idle Pod for spec aside: its owner's before everybody's, any of those.
func (r *Runtime) pick(spec sandbox.Spec) *entry {
	own, err := r.opts.shapeOf(spec)
	if err != nil {
		return nil
	}
	spec.Owner = ""
	shared, err := r.opts.shapeOf(spec)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, shape := range []string{own, shared} {
		var fit []*entry
		for _, e := range r.warm {
			if e.idle() && !e.aside && e.pod.Annotations[annotShape] == shape {
				fit = append(fit, e)
			}
		}
		if len(fit) > 0 {
			e := fit[rand.IntN(len(fit))]
			e.aside = true
			return e
		}
	}
	return nil
}

// putBack ends that an idle Pod is set aside. One that did not answer is asked again first.
func (r *Runtime) putBack(warm *entry, ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if warm.aside = false; !ready {
		warm.seen.ready = time.Time{}
		r.evaluate(warm, time.Now())
	}
}

// settle is the body of a ticket, after completing the claim if nobody has. IsNotFound is
// that it has none and never will: then it is gone as well, and the id is free.
func (r *Runtime) settle(ctx context.Context, ticket *corev1.Pod) (*corev1.Pod, error) {
	r.observe(ticket, false)
	spec, err := specOf(ticket)
	if err != nil {
		return nil, err
	}
	for {
		body, err := r.get(ctx, ticket.Annotations[annotBody])
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("look at the warm Pod of sandbox %s: %w", spec.ID, err)
		case err == nil && ticketOf(body) == string(ticket.UID):
			return body, nil
		case err == nil && claimable(body, ticket):
			made, err := r.update(ctx, bodyOf(body, ticket, spec, time.Now()))
			if err == nil || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				return made, err
			}
			continue // it changed meanwhile
		}
		if err := r.deletePod(ctx, ticket, nil); err != nil {
			return nil, fmt.Errorf("delete the ticket of sandbox %s: %w", spec.ID, err)
		}
		r.dropTicket(ticket)
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), ticket.Name)
	}
}

func (r *Runtime) get(ctx context.Context, name string) (*corev1.Pod, error) {
	ctx, cancel := brief(ctx)
	defer cancel()
	return r.client.CoreV1().Pods(r.opts.Namespace).Get(ctx, name, metav1.GetOptions{})
}

// deletePod deletes this very Pod, in this very version when one is given. Nil too when it
// is gone or changed.
func (r *Runtime) deletePod(ctx context.Context, pod *corev1.Pod, version *string) error {
	ctx, cancel := brief(ctx)
	defer cancel()
	err := r.client.CoreV1().Pods(r.opts.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: version},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// takeTicket takes in a ticket, and then its body, should that have been seen first. The
// caller holds mu.
func (r *Runtime) takeTicket(ticket *corev1.Pod) {
	uid := string(ticket.UID)
	if r.tickets[uid] == nil {
		r.tickets[uid] = ticket
	}
	if body := r.bodies[uid]; body != nil {
		delete(r.bodies, uid)
		r.take(body, true)
	}
}

func (r *Runtime) dropTicket(ticket *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tickets, string(ticket.UID))
}

// claimedSpec is what a body was claimed for; false while its ticket is not known, which
// has what no annotation may show. The caller holds mu.
func (r *Runtime) claimedSpec(body *corev1.Pod) (sandbox.Spec, bool) {
	ticket := r.tickets[ticketOf(body)]
	if ticket == nil {
		r.bodies[ticketOf(body)] = body
		return sandbox.Spec{}, false
	}
	spec, err := specOf(ticket)
	return spec, err == nil
}

// claimedAt is when a body was claimed; zero for a Pod that was made for its sandbox.
func claimedAt(pod *corev1.Pod) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, pod.Annotations[annotClaimed])
	return at
}
