package envctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"orchard/envctl/client"
	"orchard/internal/exit"
)

// Flags may stand anywhere before the remote command, and what is the command's stays so.
func TestArrange(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"exec ID ls -l", "exec -- ID ls -l"},
		{"exec ID -t ls -l", "exec -t -- ID ls -l"},
		{"exec -t ID -- ls -l", "exec -t -- ID ls -l"},
		{"exec ID --timeout 5s -o json ls -o x", "-o json exec --timeout 5s -- ID ls -o x"},
		{"exec ID sh -c x -- y", "exec -- ID sh -c x -- y"},
		{"exec --env -o ID ls", "exec --env -o -- ID ls"},
		{"exec -it ID -e A=b -- -x", "exec -it -e A=b -- ID -x"},
		{"ls -o json --url x -a", "-o json --url x ls -a"},
		{"--local run host --cpu 1 -- a", "--local run --cpu 1 -- host a"},
		{"ls -l app=x", "ls -l app=x"},
		{"create host -l a=b --wait=false", "create -l a=b --wait=false -- host"},
		{"port forward ID 80 -L 8080", "port forward -L 8080 -- ID 80"},
		{"port ls ls", "port ls -- ls"},
		{"cp - ID:/x", "cp -- - ID:/x"},
		{"cp -- -rf ID:/x", "cp -- -rf ID:/x"},
		{"serve -- exec a -b", "serve -- exec a -b"},
		{"nothing -x", "-- nothing"}, // unknown flags of unknown verbs are for urfave to refuse
		{"", ""},
	} {
		p := &Program{}
		got := strings.Join(arrange(p.app(), append([]string{"envctl"}, strings.Fields(c[0])...))[1:], " ")
		if c[0] == "nothing -x" {
			if !strings.Contains(got, "nothing") {
				t.Errorf("%q became %q", c[0], got)
			}
			continue
		}
		if got != c[1] {
			t.Errorf("%q became %q, want %q", c[0], got, c[1])
		}
	}
}

// The table of exit codes, and their names in JSON.
func TestCodes(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error { return fmt.Errorf("doing: %w", err) }
	for _, c := range []struct {
		err  error
		kind string
		code int
	}{
		{remote(42), "exit", 42}, {remote(255), "exit", 255}, {remote(-9), "exit", 137}, {remote(-15), "exit", 143},
		{wrap(&client.NotFound{}), "not_found", 127}, {wrap(&client.Gone{Reason: "OOMKilled"}), "gone", 127},
		{wrap(unknown{&client.Gone{Reason: "OOMKilled"}}), "unknown", 125},
		{wrap(&client.Refused{}), "refused", 126}, {wrap(&client.Denied{}), "denied", 126}, {wrap(&client.QuotaExceeded{}), "quota_exceeded", 126},
		{wrap(&client.Conflict{}), "conflict", 125}, {wrap(&client.NotReady{}), "not_ready", 125},
		{wrap(&client.Unavailable{Err: errors.New("x")}), "unavailable", 125},
		{wrap(&client.Failure{Status: 500}), "error", 125}, {errors.New("x"), "error", 125}, {exit.Configf("x"), "usage", 125},
		{wrap(context.Canceled), "stopped", 130}, {errors.Join(remote(3), errors.New("x")), "exit", 3},
	} {
		if name, code := kind(c.err); name != c.kind || code != c.code {
			t.Errorf("%v is %s, %d; want %s, %d", c.err, name, code, c.kind, c.code)
		}
	}
	if remote(0) != nil {
		t.Error("exit code 0 is an error")
	}
	var b bytes.Buffer
	if code := report(&b, wrap(&client.Gone{Reason: "evicted", Detail: "it is gone", Retryable: true}), true); code != 127 ||
		b.String() != `{"error":{"exit_code":127,"kind":"gone","message":"doing: it is gone","reason":"evicted","retryable":true}}`+"\n" {
		t.Errorf("%d %s", code, b.String())
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]place{
		"id:/x": {"id", "/x"}, "id:": {"id", ""}, "id:a:b": {"id", "a:b"}, "x": {"", "x"}, "./a:b": {"", "./a:b"},
		"/a:b": {"", "/a:b"}, "-": {"", "-"}, ":x": {"", ":x"}, "a/b:c": {"", "a/b:c"}, "a.b:c": {"", "a.b:c"},
	} {
		if got := parsePlace(text); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	for _, c := range []struct{ name, link string }{{"l", "/etc"}, {"l", ".."}, {"a/l", "../.."}, {"a/l", "../../x"}} {
		if !leadsOut(c.name, c.link) {
			t.Errorf("%s -> %s stays", c.name, c.link)
		}
	}
	for _, c := range []struct{ name, link string }{{"l", "x"}, {"a/l", "../x"}, {"l", "..x"}, {"l", "a/../b"}} {
		if leadsOut(c.name, c.link) {
			t.Errorf("%s -> %s leads out", c.name, c.link)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{-time.Second: "0s", 45 * time.Second: "45s", 200 * time.Second: "3m20s", 310 * time.Minute: "5h10m", 52 * time.Hour: "2d4h"} {
		if got := short(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
	if got := oneLine("a\x1b[2Jb\nc\u009bé"); got != "a [2Jb c é" {
		t.Errorf("%q", got)
	}
	times := make([]time.Duration, 100)
	for i := range times {
		times[i] = time.Duration(100-i) * time.Millisecond
	}
	if got, want := percentilesOf(times), (percentiles{50, 90, 99, 100}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if got := percentilesOf(nil); got != (percentiles{}) {
		t.Errorf("%v of nothing", got)
	}
}

func TestEgressRules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]client.EgressRule{
		"pypi.org":            {Domain: "pypi.org"},
		"*.pypi.org:443":      {Domain: "*.pypi.org", Ports: []uint16{443}},
		"203.0.113.0/24":      {CIDR: "203.0.113.0/24"},
		"203.0.113.7:22,80":   {CIDR: "203.0.113.7", Ports: []uint16{22, 80}},
		"2001:db8::/32":       {CIDR: "2001:db8::/32"},
		"2001:db8::1":         {CIDR: "2001:db8::1"},
		"[2001:db8::/32]:443": {CIDR: "2001:db8::/32", Ports: []uint16{443}},
		"pypi.org:80@10m":     {Domain: "pypi.org", Ports: []uint16{80}, For: 10 * time.Minute},
	} {
		if got, err := egressRule(text); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q is %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":80", "a:b", "a:0", "a:70000", "a@", "a@-1m", "a@x", "a:80,"} {
		if got, err := egressRule(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
