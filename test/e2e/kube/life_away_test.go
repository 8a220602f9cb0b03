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
	kept    bool // what they waited for is so; set before it opens
}

// guest is one test's part in an outage. Its functions end the test when the outage has failed.
type guest struct {
	quiet func() // returns when every test has made what takes long: what is short-lived is begun now
	begin func() // returns when there is no controller
	end   func() // returns when all are back
}

// join is a test's part, and what must be called when it is over, also in the midst.
func (o *outage) join() (part func(*testing.T) guest, leave func()) {
	come := map[*gate]func(){}
	for _, g := range []*gate{&o.quiet, &o.gone, &o.back} {
		come[g] = sync.OnceFunc(g.missing.Done)
	}
	part = func(t *testing.T) guest {
		wait := func(g *gate) func() {
			return func() {
				t.Helper()
				come[g]()
				if <-g.open; !g.kept {
					t.Fatal("the outage has failed")
				}
			}
		}
		return guest{wait(&o.quiet), wait(&o.gone), wait(&o.back)}
	}
	return part, func() {
		for _, done := range come {
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
			join, leave := o.join()
			defer leave() // also when -run leaves this part out
			t.Run(name, func(t *testing.T) {
				defer leave()
				part(t, join(t))
			})
		})
	}
	opened := 0
	defer func() {
		if opened < len(gates) { // this test has failed: the others end, and need controllers for that
			scale(cleaning{t}, replicas)
		}
		for _, g := range gates[opened:] {
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
		gates[opened].kept = true
		close(gates[opened].open)
		opened++
	}
}
