package control

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"orchard/agent/wire"
)

// defaultPortTime is how long a port's URL is good when nothing is said.
const defaultPortTime = time.Hour

// portView is a grant as clients see it. Token and URL come once, when it is made.
type portView struct {
	ID        string   `json:"id"`
	Port      int      `json:"port"`
	URL       string   `json:"url,omitempty"`
	Token     string   `json:"token,omitempty"`
	ExpiresAt *float64 `json:"expires_at"`
	Open      int      `json:"open"`
}

func viewPort(p wire.Port) portView {
	return portView{ID: p.ID, Port: p.Port, Token: p.Token, ExpiresAt: epochUS(p.ExpiresUS), Open: p.Open}
}

// openPort makes a URL by which whoever has it reaches a port of the sandbox. The grant
// is the agent's, so every replica knows it, and it ends with the sandbox.
func (s *Service) openPort(w http.ResponseWriter, r *http.Request) error {
	b, err := readBody(w, r, s.set.MaxBody)
	if err != nil {
		return err
	}
	b.required("port")
	port, err := strconv.Atoi(b.text("port"))
	if err != nil || port < 1 || port > 1<<16-1 {
		b.fault("port", "value_error", "port must be a whole number from 1 to 65535")
	}
	good := b.seconds("ttl_seconds", maxDuration)
	if err := b.err(); err != nil {
		return err
	}
	if good == 0 {
		good = defaultPortTime
	}
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	var made wire.Port
	if err := a.call(r.Context(), answerTime, http.MethodPost, "/v1/ports", nil, wire.Port{Port: port, Seconds: good.Seconds()}, &made); err != nil {
		return s.agentFault(r.Context(), st, err, "Sandbox "+st.Spec.ID+" not found")
	}
	v := viewPort(made)
	v.URL = s.origin(r) + "/p/" + st.Spec.ID + "/" + made.Token + "/"
	writeJSON(w, http.StatusOK, v)
	return nil
}

// origin is the service as the client of r sees it.
func (s *Service) origin(r *http.Request) string {
	return scheme(r) + "://" + r.Host + s.prefixOf(r)
}

func scheme(r *http.Request) string {
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return "https"
	}
	return "http"
}

// prefixOf is the path prefix when r came below it.
func (s *Service) prefixOf(r *http.Request) string {
	if p := s.set.PathPrefix; p != "" && strings.HasPrefix(r.RequestURI, p+"/") {
		return p
	}
	return ""
}

func (s *Service) listPorts(w http.ResponseWriter, r *http.Request) error {
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	var all []wire.Port
	if err := a.call(r.Context(), answerTime, http.MethodGet, "/v1/ports", nil, nil, &all); err != nil {
		return s.agentFault(r.Context(), st, err, "Sandbox "+st.Spec.ID+" not found")
	}
	ports := []portView{}
	for _, p := range all {
		ports = append(ports, viewPort(p))
	}
	writeJSON(w, http.StatusOK, struct {
		Ports []portView `json:"ports"`
	}{ports})
	return nil
}

// closePort ends a grant; connections through it, on any replica, end with it.
func (s *Service) closePort(w http.ResponseWriter, r *http.Request) error {
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	id := r.PathValue("port")
	if !sandboxID.MatchString(id) {
		return fail(http.StatusNotFound, "Port %s not found", id)
	}
	if err := a.call(r.Context(), answerTime, http.MethodDelete, "/v1/ports/"+id, nil, nil, nil); err != nil {
		return s.agentFault(r.Context(), st, err, "Port "+id+" not found")
	}
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
		ID     string `json:"id"`
	}{"revoked", id})
	return nil
}
