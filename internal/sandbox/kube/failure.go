package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orchard/internal/sandbox"
)

// transient reports whether the same request may well succeed soon, or has succeeded
// without anybody hearing of it.
func transient(err error) bool {
	var network net.Error
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsUnexpectedServerError(err) ||
		errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}

// forbidden are the words by which admission says that this very Pod may never be.
var forbidden = []string{"usage per Container", "usage per Pod", "no PriorityClass with name", "RuntimeClass", "violates PodSecurity"}

// refusal is *sandbox.Refused for a Pod that the cluster will never take, and else err:
// a quota that is used up, say, may have room again.
func refusal(spec sandbox.Spec, err error) error {
	never := apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
	if apierrors.IsForbidden(err) {
		for _, words := range forbidden {
			never = never || strings.Contains(err.Error(), words)
		}
	}
	if never {
		return refuse(spec, "the cluster takes no such Pod: %s", text(err.Error(), ""))
	}
	return fmt.Errorf("make the Pod of sandbox %s: %w", spec.ID, err)
}
