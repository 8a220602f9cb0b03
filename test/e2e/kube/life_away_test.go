package kube_test

import (
	"sync"
	"testing"
)

// outage is a time without any controller, which several tests share: each alone would wait for
// controllers that go and come back.
type outage struct {
	quiet, gone, back gate
}

// gate opens when all who have to have come, and what they wait for has been done.
type gate struct {
	missing sync.WaitGroup
	open    chan struct{}
}

// guest is one test's part in an outage.
type guest struct {
	quiet func() // returns when every test has made what takes long: what is short-lived is begun now
	begin func() // returns when there is no controller
	end   func() // returns when all are back
}

// join is a test's part, and what must be called when it is over, also in the midst.
func (o *outage) join() (guest, func()) {
	var come, leave []func()
	for _, g := range []*gate{&o.quiet, &o.gone, &o.back} {
		done := sync.OnceFunc(g.missing.Done)
		come = append(come, func() { done(); <-g.open })
		leave = append(leave, done)
	}
	return guest{come[0], come[1], come[2]}, func() {
		for _, done := range leave {
			done()
		}
	}
}

// What must hold while no controller is there, and once they are back.
func TestControllersAway(t *testing.T) {
	AllReady(t)
	parts := map[string]func(*testing.T, guest){
		"D1_SandboxesEnd":                d1SandboxesEndWithoutAnyController,
		"E6_NewControllersAdoptWhatRuns": e6NewControllersAdoptWhatRuns,
		"TimeIsUp":                       timeIsUpWithoutControllers,
	}
	var o outage
	gates := []*gate{&o.quiet, &o.gone, &o.back}
	for _, g := range gates {
		g.missing.Add(len(parts))
		g.open = make(chan struct{})
	}
	var tests sync.WaitGroup
	for name, part := range parts {
		tests.Go(func() {
			t.Run(name, func(t *testing.T) {
				g, leave := o.join()
				defer leave()
				part(t, g)
			})
		})
	}
	opened := 0
	defer func() {
		for _, g := range gates[opened:] { // when this test has failed, the others do not wait for it
			close(g.open)
		}
		tests.Wait()
	}()
	var back func()
	for _, do := range []func(){
		func() {},
		func() { back = NoControllers(t) },
		func() { back(); AllReady(t) },
	} {
		gates[opened].missing.Wait()
		do()
		close(gates[opened].open)
		opened++
	}
}
