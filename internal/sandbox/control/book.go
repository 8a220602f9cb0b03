package control

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Booking is what an owner is about to hold and no list may show yet.
type Booking struct {
	Count  int       `json:"count"`
	CPU    float64   `json:"cpu,omitempty"`
	Memory float64   `json:"memory,omitempty"`
	At     time.Time `json:"at"`
	Was    string    `json:"was,omitempty"` // the UID of an ended sandbox of this id, as whoever booked knew it
}

// Booker is a Runtime whose sandboxes several services start: it keeps one book for each
// owner, which they all write. It is optional; without it a service keeps its own.
type Booker interface {
	// Book lets change do one change to owner's bookings, by sandbox id, as they are then:
	// of two changes, wherever they are made, the second sees the first. change may be called
	// again with a later state; with an error nothing is changed, and it is returned.
	Book(ctx context.Context, owner string, change func(map[string]Booking) error) error
}

// lag is how long a booking counts though no list shows what was booked: it bounds how far
// behind a replica's list may be, and how long what was never made holds its place.
const lag = 30 * time.Second

// ownBook is the book of a service that shares its runtime with no other.
type ownBook struct {
	mu    sync.Mutex
	books map[string]map[string]Booking
}

func (o *ownBook) Book(_ context.Context, owner string, change func(map[string]Booking) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := maps.Clone(o.books[owner])
	if next == nil {
		next = map[string]Booking{}
	}
	if err := change(next); err != nil {
		return err
	}
	if o.books == nil {
		o.books = map[string]map[string]Booking{}
	}
	o.books[owner] = next
	return nil
}

// reserve books own under id if c's quota has room for it.
func (q *quotas) reserve(ctx context.Context, c caller, id string, own Booking) error {
	over := ""
	err := q.book.Book(ctx, c.name, func(book map[string]Booking) error {
		over = ""
		states, err := q.list(ctx)
		if err != nil {
			return err
		}
		var held Booking
		now, live := q.now(), map[string]bool{}
		for _, st := range states {
			// One that lives stays booked: another replica's list may not show it yet.
			if b, booked := book[st.Spec.ID]; booked && b.Was != st.UID && st.Phase == Ended {
				delete(book, st.Spec.ID)
			}
			if st.Spec.ID == id {
				own.Was = st.UID
			}
			if ownerOf(st) == c.name && st.Phase != Ended {
				live[st.Spec.ID] = true
				held.add(Booking{Count: 1, CPU: amount(st.Spec.CPU), Memory: amount(st.Spec.Memory)})
			}
		}
		if q.pools != nil {
			pools, err := q.pools(ctx)
			if err != nil {
				return err
			}
			for _, p := range pools {
				// What a pool was booked as is later than what a list may show.
				if _, booked := book[poolBooking(p.Name)]; !booked && ownerOfPool(p.Pool) == c.name && poolBooking(p.Name) != id {
					held.add(bookingOf(p.Pool, now))
				}
			}
		}
		for other, b := range book {
			switch {
			case now.Sub(b.At) > lag:
				delete(book, other)
			case other != id && !live[other]:
				held.add(b)
			}
		}
		if over, err = fits(c, held, own); err == nil {
			book[id] = own
		}
		return err
	})
	if err != nil && over != "" { // counted once, however often it was tried
		q.refused(c.name, over)
	}
	return err
}

func (b *Booking) add(more Booking) {
	b.Count, b.CPU, b.Memory = b.Count+more.Count, b.CPU+more.CPU, b.Memory+more.Memory
}

// fits is the refusal of more beside what c holds, and over which quota it is.
func fits(c caller, held, more Booking) (over string, err error) {
	switch most := c.quota; {
	case most.sandboxes != nil && held.Count+more.Count > *most.sandboxes:
		return "sandboxes", full(c, "sandboxes", 5, fmt.Sprint(*most.sandboxes), fmt.Sprint(held.Count))
	case most.cpu > 0 && held.CPU+more.CPU > most.cpu:
		return "cpu", full(c, "cpu", 5, most.cpuText, fmt.Sprintf("%g", held.CPU))
	case most.memory > 0 && held.Memory+more.Memory > most.memory:
		return "memory", full(c, "memory", 5, most.memoryText, fmt.Sprintf("%.0fMi", held.Memory/(1<<20)))
	}
	return "", nil
}

// release takes own out of the book, whatever is under id when own is zero. When that fails
// the booking holds its place for a while, and that is all.
func (q *quotas) release(ctx context.Context, c caller, id string, own Booking) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = q.book.Book(ctx, c.name, func(book map[string]Booking) error {
		if own.At.IsZero() || book[id].At.Equal(own.At) {
			delete(book, id)
		}
		return nil
	})
}
