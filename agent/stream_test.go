package agent_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"orchard/agent/wire"
)

// follow reads a job's stream until it ends, or for so many events; -1 is all. It adds
// to have, and checks that nothing is missing unsaid.
func (b *box) follow(id string, have map[string][]byte, events int) *wire.Job {
	b.t.Helper()
	resp, err := b.http.Get(fmt.Sprintf("http://agent/v1/jobs/%s/stream?stdout=%d&stderr=%d", id, len(have["stdout"]), len(have["stderr"])))
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("stream of %s: %s", id, resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	var last *wire.Job
	for n := 0; n != events && lines.Scan(); n++ {
		var e wire.StreamEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			b.t.Fatal(err)
		}
		if e.Job != nil {
			last = e.Job
		}
		if e.Stream == "" {
			continue
		}
		if e.Dropped > 0 {
			have[e.Stream] = append(have[e.Stream], make([]byte, e.Dropped)...)
		}
		if int64(len(have[e.Stream])) != e.Offset {
			b.t.Fatalf("%s at %d, have %d", e.Stream, e.Offset, len(have[e.Stream]))
		}
		have[e.Stream] = append(have[e.Stream], e.Data...)
	}
	return last
}

// However often the connection breaks, every byte comes once.
func TestStreamCutAnywhere(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	const script = `i=0; while [ $i -lt 400 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done; head -c 1000000 /dev/zero | tr '\0' z; exit 5`
	j := b.submit(wire.ExecRequest{Shell: script}, "")
	readers := make(chan string, 3)
	for range cap(readers) {
		go func() { // many at once, each for itself
			have := map[string][]byte{}
			last := b.follow(j.ID, have, -1)
			readers <- fmt.Sprintln(sha256Hex(have["stdout"]), sha256Hex(have["stderr"]), last.State, last.ExitCode != nil && *last.ExitCode == 5)
		}()
	}
	random := rand.New(rand.NewPCG(1, 2))
	have := map[string][]byte{}
	for range 200 {
		b.follow(j.ID, have, random.IntN(6))
	}
	last := b.follow(j.ID, have, -1)
	if last == nil || last.ExitCode == nil || *last.ExitCode != 5 || last.Stdout.Bytes != int64(len(have["stdout"])) {
		t.Fatalf("got %+v", last)
	}
	var out, errs bytes.Buffer
	for i := range 400 {
		fmt.Fprintln(&out, "out", i)
		fmt.Fprintln(&errs, "err", i)
	}
	out.WriteString(strings.Repeat("z", 1000000))
	if !bytes.Equal(have["stdout"], out.Bytes()) || !bytes.Equal(have["stderr"], errs.Bytes()) {
		t.Error("the output is another")
	}
	want := fmt.Sprintln(sha256Hex(out.Bytes()), sha256Hex(errs.Bytes()), wire.Done, true)
	for range cap(readers) {
		if got := <-readers; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A stream begins before its job does, and a reader that does not read holds up nothing.
func TestStreamSlowReader(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	hold := b.submit(wire.ExecRequest{Shell: "while [ ! -e go ]; do sleep 0.01; done"}, "")
	j := b.submit(wire.ExecRequest{Shell: "head -c 100000000 /dev/zero"}, "")
	resp, err := b.http.Get("http://agent/v1/jobs/" + j.ID + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b.put("go", "")
	b.await(hold.ID, wire.Done)
	if got := b.await(j.ID, wire.Done); *got.ExitCode != 0 || got.Stdout.Bytes != 100_000_000 {
		t.Errorf("got %+v", got)
	}
	have := map[string][]byte{}
	b.follow(j.ID, have, -1)
	if len(have["stdout"]) != 100_000_000 {
		t.Errorf("%d bytes", len(have["stdout"]))
	}
}

// What is printed is there at once, not when something else wakes the stream up.
func TestStreamIsLive(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	j := b.submit(wire.ExecRequest{Shell: "cat", StdinOpen: true}, "")
	resp, err := b.http.Get("http://agent/v1/jobs/" + j.ID + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	late := time.AfterFunc(60*time.Second, func() { resp.Body.Close() })
	defer late.Stop()
	events := json.NewDecoder(resp.Body)
	for i := range 40 { // five seconds each would be too many
		line := fmt.Sprintln("line", i)
		b.stdin(j.ID, "", line)
		for got := ""; got != line; {
			var e wire.StreamEvent
			if err := events.Decode(&e); err != nil {
				t.Fatalf("after %d lines: %v", i, err)
			}
			got += string(e.Data)
		}
	}
	b.stdin(j.ID, "close=1", "")
}

func TestStreamRefusals(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	j := b.run(wire.ExecRequest{Shell: "echo four"})
	for query, status := range map[string]int{"stdout=6": 400, "stdout=-1": 400, "stderr=x": 400, "stderr=1": 400, "stdout=5": 200} {
		if resp, text := b.do("GET", "/v1/jobs/"+j.ID+"/stream?"+query, nil); resp.StatusCode != status {
			t.Errorf("%s: %d %s", query, resp.StatusCode, text)
		}
	}
}

func (b *box) stdin(id, query, text string) (int, wire.Input, string) {
	b.t.Helper()
	resp, body := b.do("PUT", "/v1/jobs/"+id+"/stdin?"+query, strings.NewReader(text))
	var in wire.Input
	_ = json.Unmarshal(body, &in)
	return resp.StatusCode, in, string(body)
}

func TestStdinOpen(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	j := b.submit(wire.ExecRequest{Shell: "cat; echo end", Stdin: []byte("first "), StdinOpen: true}, "")
	if code, in, text := b.stdin(j.ID, "", "second "); code != 200 || in.Bytes != 7 || in.Closed {
		t.Fatalf("got %d %s", code, text)
	}
	// A repeat after a lost answer says where it is, and nothing comes twice.
	for range 2 {
		if code, in, text := b.stdin(j.ID, "offset=7", "third "); code != 200 || in.Bytes != 13 {
			t.Fatalf("got %d %s", code, text)
		}
	}
	if code, _, text := b.stdin(j.ID, "offset=14", "x"); code != 409 {
		t.Errorf("a gap: %d %s", code, text)
	}
	big := strings.Repeat("x", 1_000_000)
	if code, in, text := b.stdin(j.ID, "offset=10&close=1", "rd "+big); code != 200 || in.Bytes != 1_000_013 || !in.Closed {
		t.Fatalf("got %d %s", code, text)
	}
	done := b.await(j.ID, wire.Done)
	if want := int64(len("first second third end\n") + len(big)); done.Stdout.Bytes != want {
		t.Errorf("printed %d, want %d", done.Stdout.Bytes, want)
	}
	if code, _, text := b.stdin(j.ID, "", "late"); code != 409 {
		t.Errorf("after the end: %d %s", code, text)
	}
	plain := b.run(wire.ExecRequest{Shell: "cat"})
	if code, _, text := b.stdin(plain.ID, "", "x"); code != 409 || !strings.Contains(text, "stdin_open") {
		t.Errorf("not opened: %d %s", code, text)
	}
	closes := b.submit(wire.ExecRequest{Shell: "exec </dev/null; echo ok; sleep 60", StdinOpen: true}, "")
	eventually(t, "it has closed its stdin", func() bool {
		code, _, text := b.stdin(closes.ID, "", big)
		return code == 409 && strings.Contains(text, "reads its stdin no more")
	})
}

func TestSignalJob(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	j := b.submit(wire.ExecRequest{Shell: `trap 'echo usr1' USR1; trap 'echo term; exit 9' TERM; echo go; while :; do sleep 0.01; done`}, "")
	have := map[string][]byte{}
	for !bytes.Contains(have["stdout"], []byte("go")) {
		b.follow(j.ID, have, 2)
	}
	b.want(204, "POST", "/v1/jobs/"+j.ID+"/signal", wire.Signal{Sig: "USR1"}, nil)
	for !bytes.Contains(have["stdout"], []byte("usr1")) {
		b.follow(j.ID, have, 2)
	}
	b.want(400, "POST", "/v1/jobs/"+j.ID+"/signal", wire.Signal{Sig: "NOPE"}, nil)
	queued := b.submit(wire.ExecRequest{Shell: "true"}, "")
	b.want(409, "POST", "/v1/jobs/"+queued.ID+"/signal", wire.Signal{Sig: "TERM"}, nil)
	b.want(204, "POST", "/v1/jobs/"+j.ID+"/signal", wire.Signal{Sig: "TERM"}, nil)
	if got := b.await(j.ID, wire.Done); *got.ExitCode != 9 {
		t.Errorf("got %+v", got)
	}
	b.want(409, "POST", "/v1/jobs/"+j.ID+"/signal", wire.Signal{Sig: "TERM"}, nil)
}
