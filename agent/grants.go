package agent

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"orchard/agent/wire"
)

const (
	maxGrants  = 256
	maxTunnels = 512 // open at once, of all grants
)

// grants say who may reach a port of the sandbox, and hold the connections made so: a
// grant that ends takes them with it. They are here and not in a controller so that any
// controller finds them. Safe for concurrent use.
type grants struct {
	now func() time.Time

	mu      sync.Mutex
	byToken map[string]*grant // by the token's hash
	past    names             // hashes of tokens that were good
	tunnels int
}

type grant struct {
	view    wire.Port
	hash    string
	timer   *time.Timer
	tunnels map[*tunnel]bool
}

func newGrants() *grants {
	return &grants{now: time.Now, byToken: map[string]*grant{}, past: names{has: map[string]bool{}}}
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// add makes a grant; the token is in its answer only.
func (g *grants) add(port int, good time.Duration) (wire.Port, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.byToken) >= maxGrants {
		return wire.Port{}, conflict("there are %d grants of ports already: end some", maxGrants)
	}
	token := rand.Text() // 130 bits
	made := &grant{hash: hashOf(token), tunnels: map[*tunnel]bool{}, view: wire.Port{
		ID: strings.ToLower(rand.Text()[:10]), Port: port, ExpiresUS: g.now().Add(good).UnixMicro(),
	}}
	g.byToken[made.hash] = made
	made.timer = time.AfterFunc(good, func() { g.end(made) })
	view := made.view
	view.Token = token
	return view, nil
}

// end cuts what a grant has let in.
func (g *grants) end(of *grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byToken[of.hash] != of {
		return
	}
	delete(g.byToken, of.hash)
	g.past.add(of.hash)
	of.timer.Stop()
	for t := range of.tunnels {
		t.cut()
	}
}

// find is the grant of a token.
func (g *grants) find(token string) (*grant, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	hash := hashOf(token)
	found := g.byToken[hash]
	switch {
	case found != nil && g.now().UnixMicro() < found.view.ExpiresUS:
		return found, nil
	case found != nil || g.past.has[hash]:
		return nil, &problem{http.StatusGone, wire.CodeGone, "this grant of a port has expired or was revoked"}
	}
	return nil, &problem{http.StatusNotFound, wire.CodeBadToken, "no grant of a port has this token"}
}

// hold counts a connection as the grant's, unless that has ended meanwhile.
func (g *grants) hold(of *grant, t *tunnel) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byToken[of.hash] != of {
		return &problem{http.StatusGone, wire.CodeGone, "this grant of a port has expired or was revoked"}
	}
	if g.tunnels >= maxTunnels {
		return conflict("there are %d connections to ports of this sandbox already", maxTunnels)
	}
	g.tunnels++
	of.tunnels[t] = true
	return nil
}

func (g *grants) release(of *grant, t *tunnel) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tunnels--
	delete(of.tunnels, t)
}

// list is all grants, the one that ends first first.
func (g *grants) list() []wire.Port {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := []wire.Port{}
	for _, one := range g.byToken {
		view := one.view
		view.Open = len(one.tunnels)
		all = append(all, view)
	}
	slices.SortFunc(all, func(a, b wire.Port) int {
		return cmp.Or(cmp.Compare(a.ExpiresUS, b.ExpiresUS), strings.Compare(a.ID, b.ID))
	})
	return all
}

func (g *grants) byID(id string) *grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.byToken {
		if one.view.ID == id {
			return one
		}
	}
	return nil
}

func (s *Server) openPort(w http.ResponseWriter, r *http.Request) error {
	var asked wire.Port
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return badRequest("the body is not a port: %v", err)
	}
	if asked.Port < 1 || asked.Port > 1<<16-1 {
		return badRequest("port: %d is not within 1 and 65535", asked.Port)
	}
	if math.IsNaN(asked.Seconds) || asked.Seconds <= 0 || asked.Seconds > maxTimeout.Seconds() {
		return badRequest("seconds: %v is not above 0 and at most %.0f", asked.Seconds, maxTimeout.Seconds())
	}
	made, err := s.grants.add(asked.Port, time.Duration(asked.Seconds*float64(time.Second)))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, made)
}

func (s *Server) listPorts(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, s.grants.list())
}

func (s *Server) closePort(w http.ResponseWriter, r *http.Request) error {
	found := s.grants.byID(r.PathValue("id"))
	if found == nil {
		return notFound("there is no grant of a port %.40q, or not any more", r.PathValue("id"))
	}
	s.grants.end(found)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
