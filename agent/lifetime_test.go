package agent_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"orchard/agent/wire"
)

// naptime makes the command line of a sleep that no other test has.
func naptime() string { return fmt.Sprintf("sleep 6%d.%d", jobNumber.Add(1), os.Getpid()) }

func TestBackgroundDoesNotHoldTheAnswer(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, c := range []struct{ name, shell string }{
		{"background", "%s & echo ok"},
		{"own session", "(setsid %s &) ; echo ok"},
		{"nohup", "nohup %s & echo ok"},
		{"prints forever", "(while echo noise >&2; do :; done; %s) & bash -c '%[1]s & echo ok'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nap := naptime()
			j := b.run(wire.ExecRequest{Shell: fmt.Sprintf(c.shell, nap)})
			if string(j.Stdout.Data) != "ok\n" || *j.ExitCode != 0 {
				t.Errorf("got %d %q %.100q", *j.ExitCode, j.Stdout.Data, j.Stderr.Data)
			}
			eventually(t, "the background process lives", func() bool { return alive(nap) })
			b.want(200, "POST", "/v1/jobs/"+j.ID+"/kill", nil, nil)
			eventually(t, "the kill route ends what an ended job left", func() bool { return !alive(nap) })
		})
	}
}

// A survivor that prints after its job has ended must get neither SIGPIPE nor a full pipe.
func TestSurvivorMayPrint(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	j := b.run(wire.ExecRequest{Shell: "(sleep 0.3; head -c 1000000 /dev/zero && echo alive > later) & echo ok"})
	if string(j.Stdout.Data) != "ok\n" {
		t.Fatalf("got %q", j.Stdout.Data)
	}
	eventually(t, "the survivor prints to the end", func() bool {
		text, _ := os.ReadFile(b.dir + "/later")
		return string(text) == "alive\n"
	})
	b.want(200, "GET", "/v1/jobs/"+j.ID, nil, &j)
	if string(j.Stdout.Data) != "ok\n" || j.Stdout.Bytes != 3 {
		t.Errorf("the ended job changed: %d bytes", j.Stdout.Bytes)
	}
}

func TestTimeoutKillsTheWholeTree(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, c := range []struct{ name, shell string }{
		{"itself", "echo partial; exec %s"},
		{"child", "echo partial; %s; echo no"},
		{"group", "echo partial; %s & %[1]s & wait"},
		{"own session", "echo partial; setsid %s & wait"},
		{"orphan", "echo partial; (setsid %s &); sleep 60"},
		{"orphan without a trace", "echo partial; (env -i setsid bash -c '(%s &) ; exit' >/dev/null 2>&1 </dev/null &); sleep 60"},
		{"ignores signals", "echo partial; trap '' TERM HUP INT; %s"},
		{"stopped", "echo partial; %s & kill -STOP $!; wait"},
		{"main process waits", "echo partial; (%s &) ; cat <(sleep 60)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nap := naptime()
			survivor := naptime()
			b.sh("%s & true", survivor)
			eventually(t, "the survivor lives", func() bool { return alive(survivor) })
			j := b.run(wire.ExecRequest{Shell: fmt.Sprintf(c.shell, nap), TimeoutMS: 500})
			if *j.ExitCode != 124 || j.Reason != wire.ReasonTimeout || j.State != wire.Done || !strings.Contains(j.Error, "timed out after 500ms") {
				t.Errorf("got %d %q %q %q", *j.ExitCode, j.Reason, j.State, j.Error)
			}
			if string(j.Stdout.Data) != "partial\n" {
				t.Errorf("partial output: got %q", j.Stdout.Data)
			}
			if alive(nap) {
				t.Error("a descendant is alive")
			}
			if !alive(survivor) {
				t.Error("another job's background process was killed too")
			}
			if b.sh("echo usable") != "usable\n" {
				t.Error("the sandbox is not usable")
			}
		})
	}
}

// A fork bomb of another user makes processes faster than they can be listed, and its
// first process is gone at once.
func TestKillEndsAForkBomb(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	name := b.dir + "/bomb"
	b.put(name, "for i in 1 2 3 4 5 6 7 8; do sh "+name+" $1 & done 2>/dev/null; (sleep 0.05; exec sh "+name+" $1) & \n")
	bomb := wire.ExecRequest{Shell: "ulimit -u 300; exec setpriv --reuid 54321 --clear-groups sh " + name, TimeoutMS: 10_000}
	j := b.run(bomb)
	for try := 1; !alive(name); try++ { // all of its processes may have found no room for a child
		if try == 20 {
			t.Fatalf("the bomb did not go off: %d %.300q", *j.ExitCode, j.Stderr.Data)
		}
		j = b.run(bomb)
	}
	b.want(200, "POST", "/v1/jobs/"+j.ID+"/kill", nil, nil)
	if alive(name) {
		t.Error("a part of the bomb is alive")
	}
	b.sh("true")
}

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	j := b.run(wire.ExecRequest{Shell: "for i in 1 2 3 4 5 6 7 8; do echo $i >&2; sleep 0.2; done", IdleTimeoutMS: 1000})
	if *j.ExitCode != 0 || j.Reason != "" {
		t.Errorf("chatty: got %d %q", *j.ExitCode, j.Reason)
	}
	j = b.run(wire.ExecRequest{Shell: "echo a; sleep 60", IdleTimeoutMS: 300})
	if *j.ExitCode != 124 || j.Reason != wire.ReasonIdleTimeout || string(j.Stdout.Data) != "a\n" {
		t.Errorf("silent: got %d %q %q", *j.ExitCode, j.Reason, j.Stdout.Data)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	nap := naptime()
	running := b.submit(wire.ExecRequest{Shell: "echo begun; bash -c '" + nap + " & wait'"}, "")
	queued := b.submit(wire.ExecRequest{Shell: "echo never > never"}, "")
	after := b.submit(wire.ExecRequest{Shell: "echo after"}, "")
	eventually(t, "it runs", func() bool { return alive(nap) })
	if queued.State != wire.Queued || queued.StartedUS != 0 {
		t.Errorf("got %+v, want a queued job", queued)
	}
	for _, c := range []struct{ id, stdout string }{{queued.ID, ""}, {running.ID, "begun\n"}} {
		var j wire.Job
		b.want(200, "POST", "/v1/jobs/"+c.id+"/kill", nil, &j)
		if *j.ExitCode != -9 || j.Reason != wire.ReasonKilled || j.State != wire.Done || string(j.Stdout.Data) != c.stdout || j.EndedUS == 0 {
			t.Errorf("got %+v", j)
		}
	}
	if alive(nap) {
		t.Error("a child is alive")
	}
	if j := b.await(after.ID, wire.Done); string(j.Stdout.Data) != "after\n" {
		t.Errorf("after: %+v", j)
	}
	if _, err := os.Stat(b.dir + "/never"); err == nil {
		t.Error("the killed queued job ran")
	}
	var ended wire.Job
	b.want(200, "POST", "/v1/jobs/"+after.ID+"/kill", nil, &ended)
	if *ended.ExitCode != 0 || ended.Reason != "" {
		t.Errorf("killing an ended job changed it: %+v", ended)
	}
	b.want(404, "POST", "/v1/jobs/none/kill", nil, nil)
}

// Thousands of quick commands beside orphans that die all the time: no exit status is
// lost or mixed up, and no zombie stays.
func TestReaperKeepsStatusesApart(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := range rounds {
				want := (worker*31 + i) % 120
				shell := fmt.Sprintf("(true &) ; (sh -c 'exit 99' &) ; exit %d", want)
				if j := b.run(wire.ExecRequest{Shell: shell, Concurrent: true}); *j.ExitCode != want {
					t.Errorf("got exit %d, want %d", *j.ExitCode, want)
				}
			}
		})
	}
	all.Wait()
	eventually(t, "no zombie is left", func() bool { return zombiesOf(b.cmd.Process.Pid) == 0 })
}

func zombiesOf(parent int) int {
	n := 0
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		text, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 1 && fields[0] == "Z" && fields[1] == strconv.Itoa(parent) {
			n++
		}
	}
	return n
}

func TestQueue(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	first := b.submit(wire.ExecRequest{Shell: "while [ ! -e go ]; do sleep 0.01; done; echo 0 >> order"}, "")
	var jobs []wire.Job
	for i := range 20 {
		// Queued for longer than its timeout, it still has all its time.
		jobs = append(jobs, b.submit(wire.ExecRequest{Shell: fmt.Sprintf("echo %d >> order; sleep 0.01", i+1), TimeoutMS: 400}, ""))
	}
	b.await(first.ID, wire.Running)
	if j := b.run(wire.ExecRequest{Shell: "echo now", Concurrent: true}); string(j.Stdout.Data) != "now\n" {
		t.Errorf("concurrent: got %+v", j)
	}
	if got := b.submit(wire.ExecRequest{Shell: "true"}, "0.01"); got.State != wire.Queued {
		t.Errorf("a wait that is over: got state %q", got.State)
	}
	b.put("beside", "files do not queue")
	time.Sleep(500 * time.Millisecond)
	b.put("go", "")
	want := "0\n"
	for i, j := range jobs {
		if j = b.await(j.ID, wire.Done); *j.ExitCode != 0 {
			t.Errorf("job %d: %+v", i, j)
		}
		want += fmt.Sprintf("%d\n", i+1)
	}
	if got := b.get("order"); got != want {
		t.Errorf("order: got %q", got)
	}
}
