package agent

import (
	"slices"
	"time"
)

// What is kept of ended jobs: the newest, within all of these.
const (
	keepFor    = time.Hour
	keepJobs   = 4096
	keepMemory = 8 << 20 // bytes of commands and short outputs
	keepDisk   = 2 << 30 // bytes of spool files
	keepNames  = 1 << 16 // ids and keys of jobs that are gone
)

// count adds an ended job to what is kept. t.mu is held.
func (t *table) count(j *job) {
	for _, s := range []*spool{j.stdout, j.stderr} {
		memory, disk := s.cost()
		j.memory, j.disk = j.memory+memory, j.disk+disk
	}
	j.memory += int64(len(j.view.Command))
	t.memory, t.disk = t.memory+j.memory, t.disk+j.disk
}

// expire drops the oldest ended jobs until the rest is within the limits; never the
// newest job, nor one that is being read. t.mu is held.
func (t *table) expire() {
	for i := 0; i < len(t.order)-1; {
		j := t.order[i]
		full := len(t.order) > keepJobs || t.memory > keepMemory || t.disk > keepDisk
		switch {
		case !j.ended() || j.holds > 0:
			i++
		case full || t.now().Sub(time.UnixMicro(j.view.EndedUS)) > keepFor:
			t.order = slices.Delete(t.order, i, i+1)
			t.drop(j)
		default:
			return
		}
	}
}

func (t *table) drop(j *job) {
	t.memory, t.disk = t.memory-j.memory, t.disk-j.disk
	delete(t.byID, j.view.ID)
	t.gone.add("id " + j.view.ID)
	if j.idempotencyKey != "" {
		delete(t.keys, j.idempotencyKey)
		t.gone.add("key " + j.idempotencyKey)
	}
	if name := dedupName(j.dedupKey, j.print); t.dedup[name] == j {
		delete(t.dedup, name)
	}
	j.stdout.drop()
	j.stderr.drop()
}

// names remembers the newest keepNames names.
type names struct {
	has   map[string]bool
	order []string // a ring once it is full
	next  int
}

func (n *names) add(name string) {
	n.has[name] = true
	if len(n.order) < keepNames {
		n.order = append(n.order, name)
		return
	}
	delete(n.has, n.order[n.next])
	n.order[n.next] = name
	n.next = (n.next + 1) % keepNames
}
