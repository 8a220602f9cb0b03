package control

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// maxPage is the most sandboxes that one answer can be asked to hold.
const maxPage = 10_000

// filter is which sandboxes a caller wants to see.
type filter struct {
	owner, image, prefix, status string
	labels                       []requirement
}

// requirement is one term of a label selector: k=v, k!=v, k or !k.
type requirement struct {
	key, value string
	exists     bool // k and !k: the value does not matter
	not        bool
}

func parseFilter(q url.Values) (filter, error) {
	f := filter{owner: q.Get("owner"), image: q.Get("image"), prefix: q.Get("prefix"), status: q.Get("status")}
	switch f.status {
	case "", string(Pending), string(Ready), statusFailed:
	default:
		return f, invalidField("query", "status", "value_error", "status must be pending, ready or failed")
	}
	for _, term := range strings.Split(q.Get("labels"), ",") {
		if term = strings.TrimSpace(term); term == "" {
			continue
		}
		var r requirement
		var compares bool
		r.key, r.value, compares = strings.Cut(term, "=")
		r.exists = !compares
		if compares {
			r.key, r.not = strings.CutSuffix(r.key, "!")
			r.value = strings.TrimSpace(strings.TrimPrefix(r.value, "=")) // k==v
		} else {
			r.key, r.not = strings.CutPrefix(r.key, "!")
		}
		r.key = strings.TrimSpace(r.key)
		if !labelKey.MatchString(r.key) || !labelText.MatchString(r.value) {
			return f, invalidField("query", "labels", "value_error", "%q is none of k=v, k!=v, k and !k with a Kubernetes label", term)
		}
		f.labels = append(f.labels, r)
	}
	return f, nil
}

func (f filter) match(st State) bool {
	if f.owner != "" && f.owner != ownerOf(st) || f.image != "" && f.image != st.Spec.Image ||
		!strings.HasPrefix(st.Spec.ID, f.prefix) || f.status != "" && f.status != statusOf(st) {
		return false
	}
	for _, r := range f.labels {
		value, ok := st.Spec.Labels[r.key]
		if (ok && (r.exists || value == r.value)) == r.not {
			return false
		}
	}
	return true
}

// page is which part of what matches: at most limit of it (0 is all) after an id.
type page struct {
	limit int
	after string
}

// pageMark begins what a continue token holds, so that another's is told from it.
const pageMark = "after:"

func parsePage(q url.Values) (page, error) {
	var p page
	if q.Has("limit") {
		n, err := strconv.Atoi(q.Get("limit"))
		if err != nil || n < 1 || n > maxPage {
			return p, invalidField("query", "limit", "value_error", "limit must be a whole number from 1 to %d", maxPage)
		}
		p.limit = n
	}
	if token := q.Get("continue"); token != "" {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		id, ok := strings.CutPrefix(string(raw), pageMark)
		if err != nil || !ok || !sandboxID.MatchString(id) {
			return p, invalidField("query", "continue", "value_error", "continue is not what an earlier answer gave")
		}
		p.after = id
	}
	return p, nil
}

// list is every sandbox that is or was, by id, those that users deleted left out. Pages
// hold on to ids, so what comes and goes between two moves nothing else.
func (s *Service) list(w http.ResponseWriter, r *http.Request) error {
	want, err := parseFilter(r.URL.Query())
	if err != nil {
		return err
	}
	part, err := parsePage(r.URL.Query())
	if err != nil {
		return err
	}
	states, err := s.runtime.List(r.Context())
	if err != nil {
		return away(5, "sandboxes could not be listed: %v", err)
	}
	answer := struct {
		Sandboxes []view `json:"sandboxes"`
		Continue  string `json:"continue,omitempty"`
	}{Sandboxes: []view{}}
	for _, st := range states {
		if st.Phase == Ended && st.Reason == ReasonDeleted || st.Spec.ID <= part.after || !want.match(st) {
			continue
		}
		if part.limit > 0 && len(answer.Sandboxes) == part.limit {
			last := answer.Sandboxes[part.limit-1].SandboxID
			answer.Continue = base64.RawURLEncoding.EncodeToString([]byte(pageMark + last))
			break
		}
		answer.Sandboxes = append(answer.Sandboxes, s.view(st))
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}
