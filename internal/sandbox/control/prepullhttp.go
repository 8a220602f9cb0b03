package control

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

// prepullView is a pre-pull as clients see it.
type prepullView struct {
	ID      string   `json:"id"`
	Owner   string   `json:"owner"`
	Images  []string `json:"images"`
	Status  string   `json:"status"`
	Present int      `json:"present"`
	Failed  int      `json:"failed"`
	Pulling int      `json:"pulling"`
	Pending int      `json:"pending"`
	Created *float64 `json:"created_at"`
	Pulls   []Pull   `json:"pulls,omitempty"`
}

// The status of a pre-pull as a whole.
const (
	prepullRunning  = "running"
	prepullComplete = "complete" // every image is on every machine
	prepullFailed   = "failed"   // it is done, and at least one is not
)

// viewOfPrepull leaves out single pulls unless they are asked for.
func viewOfPrepull(st PrepullState, pulls bool) prepullView {
	v := prepullView{ID: st.ID, Owner: ownerOfPrepull(st), Images: st.Images, Status: prepullRunning, Created: epoch(st.Created)}
	for _, p := range st.Pulls {
		switch p.Status {
		case PullPresent:
			v.Present++
		case PullFailed:
			v.Failed++
		case Pulling:
			v.Pulling++
		default:
			v.Pending++
		}
	}
	switch {
	case v.Pulling+v.Pending > 0:
	case v.Failed > 0:
		v.Status = prepullFailed
	default:
		v.Status = prepullComplete
	}
	if pulls {
		v.Pulls = st.Pulls
	}
	return v
}

// postPrepull begins one. With an Idempotency-Key a repeat finds the first.
func (s *Service) postPrepull(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, s.set.MaxBody)
	if err != nil {
		return err
	}
	p, err := parsePrepull(b)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	if p.ID = newSandboxID(); key != "" {
		p.ID = keyedSandboxID(owner(r), "prepull\x00"+key)
	}
	st, err := s.runtime.Prepull(r.Context(), p)
	switch {
	case errors.Is(err, errTaken), errors.Is(err, ErrExists) && !slices.Equal(st.Images, p.Images):
		return fail(http.StatusConflict, "this Idempotency-Key is of another pre-pull")
	case err == nil || errors.Is(err, ErrExists):
	case told(err):
		return err
	default:
		return away(5, "images could not be asked for: %v", err)
	}
	writeJSON(w, http.StatusOK, viewOfPrepull(st, true))
	return nil
}

func (s *Service) getPrepull(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("prepull")
	if !sandboxID.MatchString(id) {
		return unknownPrepull(id)
	}
	st, err := s.runtime.PrepullOf(r.Context(), id)
	switch {
	case errors.Is(err, ErrNotFound):
		return unknownPrepull(id)
	case err != nil:
		return away(5, "pre-pull %s could not be looked up: %v", id, err)
	}
	writeJSON(w, http.StatusOK, viewOfPrepull(st, true))
	return nil
}

func unknownPrepull(id string) *failure {
	return fail(http.StatusNotFound, "Pre-pull %s not found", id)
}

func (s *Service) listPrepulls(w http.ResponseWriter, r *http.Request) error {
	all, err := s.runtime.Prepulls(r.Context())
	if err != nil {
		return away(5, "pre-pulls could not be listed: %v", err)
	}
	views := make([]prepullView, len(all))
	for i, st := range all {
		views[i] = viewOfPrepull(st, false)
	}
	writeJSON(w, http.StatusOK, struct {
		Prepulls []prepullView `json:"prepulls"`
	}{views})
	return nil
}

// deletePrepull ends one; one that is not there is as good as ended.
func (s *Service) deletePrepull(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("prepull")
	if sandboxID.MatchString(id) {
		if err := s.runtime.DeletePrepull(r.Context(), id); err != nil && !errors.Is(err, ErrNotFound) {
			return away(5, "pre-pull %s could not be deleted: %v", id, err)
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
		ID     string `json:"id"`
	}{"deleted", id})
	return nil
}

// parsePrepull reads which images are to be on which machines.
func parsePrepull(b *body) (Prepull, error) {
	b.required("images")
	p := Prepull{Images: b.list("images"), Placement: b.placement(), AtOnce: b.whole("at_once", maxAtOnce), Timeout: b.seconds("timeout_seconds", maxPrepullTime)}
	if n := len(p.Images); b.get("images") != nil && (n == 0 || n > MaxPrepullImages) {
		b.fault("images", "value_error", "images must name 1 to 50 images")
	}
	for i, image := range p.Images {
		switch {
		case !imageRule.MatchString(image):
			b.fault("images", "value_error", "each of images must be an image reference without spaces, up to 512 characters")
		case slices.Contains(p.Images[:i], image):
			b.fault("images", "value_error", "images names "+image+" twice")
		}
	}
	if b.get("gpu") != nil {
		b.fault("gpu", "value_error", "pulling an image takes no GPU: name the machines by node_selector")
	}
	if p.AtOnce == 0 {
		p.AtOnce = defaultAtOnce
	}
	if p.Timeout == 0 {
		p.Timeout = 30 * time.Minute
	}
	return p, b.err()
}
