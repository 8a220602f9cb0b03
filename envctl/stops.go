package envctl

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// stops are Ctrl-C and SIGTERM: they end the verb's context, unless the verb takes them
// to hand them on.
type stops struct {
	mu   sync.Mutex
	take func(os.Signal)
}

// watch is a context that a stop ends; done ends the watching.
func (s *stops) watch(ctx context.Context) (watched context.Context, done func()) {
	watched, cancel := context.WithCancel(ctx)
	came := make(chan os.Signal, 8)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			select {
			case <-watched.Done():
				return
			case sig := <-came:
				s.mu.Lock()
				take := s.take
				s.mu.Unlock()
				if take == nil {
					cancel()
					return
				}
				take(sig)
			}
		}
	})
	return watched, func() {
		cancel()
		work.Wait()
		signal.Stop(came)
	}
}

// hand gives stops to take until back is called. take must not wait.
func (s *stops) hand(take func(os.Signal)) (back func()) {
	set := func(f func(os.Signal)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.take = f
	}
	set(take)
	return func() { set(nil) }
}
