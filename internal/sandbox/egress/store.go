package egress

import (
	"net/netip"
	"sync"
)

// Source is who has which address, and what is granted to it.
type Source interface {
	// Lookup is the grant of the sandbox at addr. The channel is closed when another
	// grant, or none, holds for addr.
	Lookup(addr netip.Addr) (g Grant, changed <-chan struct{}, ok bool)
}

// Store is a Source that is told. The zero Store is empty; safe for concurrent use.
type Store struct {
	mu   sync.Mutex
	byIP map[netip.Addr]held
}

type held struct {
	grant   Grant
	changed chan struct{}
}

// Lookup implements Source.
func (s *Store) Lookup(addr netip.Addr) (Grant, <-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.byIP[addr.Unmap()]
	return h.grant, h.changed, ok
}

// Set makes g hold for addr, unless a later grant for the same sandbox holds already.
func (s *Store) Set(addr netip.Addr, g Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr = addr.Unmap()
	if old, ok := s.byIP[addr]; ok {
		if old.grant.UID == g.UID && old.grant.Generation >= g.Generation {
			return
		}
		close(old.changed)
	}
	if s.byIP == nil {
		s.byIP = map[netip.Addr]held{}
	}
	s.byIP[addr] = held{g, make(chan struct{})}
}

// Drop ends what holds for addr if it is the sandbox uid's: the address may be another's
// by now.
func (s *Store) Drop(addr netip.Addr, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr = addr.Unmap()
	if old, ok := s.byIP[addr]; ok && old.grant.UID == uid {
		close(old.changed)
		delete(s.byIP, addr)
	}
}
