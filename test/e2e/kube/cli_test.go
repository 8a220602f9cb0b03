package kube_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"orchard/envctl/client"
)

// program is a program of this module, built once.
var programs struct {
	sync.Mutex
	at map[string]string
}

func program(t testing.TB, pkg string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if at := programs.at[pkg]; at != "" {
		return at
	}
	// The folder outlives the test, as the program is everybody's: the system clears it.
	folder, err := os.MkdirTemp("", "orchard-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(folder, filepath.Base(pkg))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", at, pkg).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", pkg, err, out)
	}
	if programs.at == nil {
		programs.at = map[string]string{}
	}
	programs.at[pkg] = at
	return at
}

// Ran is a command line that ended.
type Ran struct {
	Code     int
	Out, Err string
}

// Envctl runs envctl with the Service in its environment; env comes on top.
func Envctl(t testing.TB, env []string, stdin string, args ...string) Ran {
	t.Helper()
	service := Controller(t)
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	cmd := exec.CommandContext(ctx, program(t, "orchard/cmd/envctl"), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "SANDBOX_BASE_URL=" + service.URL, "SANDBOX_API_KEY=" + service.Key}, env...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	err := cmd.Run()
	var code *exec.ExitError
	if err != nil && !errors.As(err, &code) {
		t.Fatalf("envctl %v: %v", args, err)
	}
	return Ran{cmd.ProcessState.ExitCode(), out.String(), said.String()}
}

// H1: whatever a remote command came to, the command line ends with 0. Once with a URL and a key,
// once with nothing but a kubeconfig.
func TestH1_ExitCodesPassThrough(t *testing.T) {
	t.Parallel()
	id := Common(t, bashImage).ID()
	cluster := []string{"SANDBOX_BASE_URL=", "SANDBOX_API_KEY=", "KUBECONFIG=" + os.Getenv("KUBECONFIG")}
	for _, c := range []struct {
		command string
		code    int
		inJSON  int
	}{{"exit 0", 0, 0}, {"exit 42", 42, 42}, {"exit 255", 255, 255}, {"kill -KILL $$", 137, -9}, {"kill -TERM $$", 143, -15}} {
		if got := Envctl(t, nil, "", "exec", id, "--", "sh", "-c", "echo out; echo err >&2; "+c.command); got != (Ran{c.code, "out\n", "err\n"}) {
			t.Errorf("%s: %+v", c.command, got)
		}
		got := Envctl(t, nil, "", "-o", "json", "exec", id, "--", "sh", "-c", "echo out; "+c.command)
		var said struct {
			ExitCode *int `json:"exit_code"`
			Stdout   string
		}
		if err := json.Unmarshal([]byte(got.Out), &said); err != nil || got.Code != c.code || said.ExitCode == nil || *said.ExitCode != c.inJSON || said.Stdout != "out\n" {
			t.Errorf("%s in JSON: %+v, %v", c.command, got, err)
		}
	}
	if got := Envctl(t, cluster, "", "--namespace", namespace, "exec", id, "--", "sh", "-c", "echo through; exit 42"); got != (Ran{42, "through\n", ""}) {
		t.Errorf("with a kubeconfig only: %+v", got)
	}
	if got := Envctl(t, nil, "typed\n", "exec", "-i", id, "--", "sh", "-c", "cat; exit 3"); got != (Ran{3, "typed\n", ""}) {
		t.Errorf("with input: %+v", got)
	}
}

// H3: a sandbox that is not there and a remote command that failed look alike.
func TestH3_OwnErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	id, image := Common(t, bashImage).ID(), "198.18.255.1:1/nope:none"
	for name, c := range map[string]struct {
		env  []string
		args []string
		code int
		kind string // "" is none of envctl's own
	}{
		"remote failure":       {nil, []string{"exec", id, "false"}, 1, ""},
		"remote 127":           {nil, []string{"exec", id, "nothing-of-this-name"}, 127, ""},
		"no such sandbox":      {nil, []string{"exec", "nobody", "true"}, 127, "not_found"},
		"wrong key":            {[]string{"SANDBOX_API_KEY=wrong"}, []string{"exec", id, "true"}, 126, "denied"},
		"no such flag":         {nil, []string{"exec", "--nonsense", id, "true"}, 125, "usage"},
		"image that is not":    {nil, []string{"create", image}, 125, "not_started"},
		"spec that never runs": {nil, []string{"create", bareImage, "--memory", "nonsense"}, 126, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Envctl(t, c.env, "", append([]string{"-o", "json"}, c.args...)...)
			var said struct {
				Error struct {
					Kind     string
					ExitCode int `json:"exit_code"`
				}
			}
			lines := strings.Split(strings.TrimSpace(got.Err), "\n")
			_ = json.Unmarshal([]byte(lines[len(lines)-1]), &said) // no JSON is no kind
			if got.Code != c.code || said.Error.Kind != c.kind || c.kind != "" && said.Error.ExitCode != c.code {
				t.Errorf("exit %d, kind %q, want %d, %q: %s%s", got.Code, said.Error.Kind, c.code, c.kind, got.Out, got.Err)
			}
		})
	}
}

// H6: there is no way to copy, or it leaves out what is not a plain file.
func TestH6_CopyBothWays(t *testing.T) {
	t.Parallel()
	id, local := Common(t, bashImage).ID(), t.TempDir()
	tree := filepath.Join(local, "a tree")
	for name, text := range map[string]string{".gitignore": "*.log\n", "kept.log": "ignored by git", "sub dir/é file": "x", "run.sh": "#!/bin/sh\n"} {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Chmod(filepath.Join(tree, "run.sh"), 0o755), os.MkdirAll(filepath.Join(tree, "empty"), 0o700), os.Symlink("kept.log", filepath.Join(tree, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := walk(t, tree)
	if got := Envctl(t, nil, "", "cp", tree, id+":/tmp/h6 up"); got.Code != 0 {
		t.Fatalf("up: %+v", got)
	}
	back := filepath.Join(local, "back")
	if got := Envctl(t, []string{"SANDBOX_BASE_URL=", "SANDBOX_API_KEY=", "KUBECONFIG=" + os.Getenv("KUBECONFIG")}, "", "--namespace", namespace, "cp", id+":/tmp/h6 up", back); got.Code != 0 {
		t.Fatalf("down, with a kubeconfig only: %+v", got)
	}
	if diff := cmp.Diff(want, walk(t, back)); diff != "" {
		t.Errorf("there and back:\n%s", diff)
	}
	if got := Envctl(t, nil, "piped", "cp", "-", id+":/tmp/h6-pipe"); got.Code != 0 {
		t.Errorf("from standard input: %+v", got)
	}
	if got := Envctl(t, nil, "", "cp", id+":/tmp/h6-pipe", "-"); got != (Ran{0, "piped", ""}) {
		t.Errorf("to standard output: %+v", got)
	}
	if got := Envctl(t, nil, "", "cp", id+":/tmp/h6-none", local); got.Code == 0 || !strings.Contains(got.Err, "h6-none") {
		t.Errorf("what is not there: %+v", got)
	}
}

// walk is what is below a folder: modes, and what files and links hold.
func walk(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var text []byte
		switch info.Mode().Type() {
		case 0:
			text, err = os.ReadFile(path)
		case os.ModeSymlink:
			var to string
			to, err = os.Readlink(path)
			text = []byte(to)
		}
		all[strings.TrimPrefix(path, root)] = info.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// H7: a terminal that closes, or input after the end, is told as a fault of the server.
func TestH7_ATerminalsEndIsNoFault(t *testing.T) {
	t.Parallel()
	url, s := Controller(t).URL, Common(t, bashImage)
	term, err := s.Terminal(t.Context(), client.TerminalSpec{Argv: []string{"sh", "-c", "echo over; exit 5"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(term)
	if code, waitErr := term.Wait(); err != nil || waitErr != nil || code != 5 || string(out) != "over\r\n" {
		t.Errorf("%q, %v, exit %d, %v", out, err, code, waitErr)
	}
	if _, err := term.Write([]byte("late")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("typed after the end: %v", err)
	}
	// One whose client goes away ends, with what it started.
	term, err = s.Terminal(t.Context(), client.TerminalSpec{Argv: []string{"sh", "-c", "sleep 6007 & sleep 6007"}})
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, "it runs", func(context.Context) string { return strings.Trim(Processes(t, s.ID(), "^sleep 6007"), "2") })
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	Eventually(t, "it is gone", func(context.Context) string { return strings.Trim(Processes(t, s.ID(), "^sleep 6007"), "0") })
	j := Exec(t, url, s.ID(), ":", "concurrent", true)
	for path, status := range map[string]int{"/jobs/" + j.ID + "/stdin": http.StatusConflict, "/jobs/nonsense/stdin": http.StatusNotFound, "/jobs/" + j.ID + "/kill": http.StatusOK} {
		if a := Reply(t, "POST", url+path, []byte("late")); a.Status != status {
			t.Errorf("POST %s after the end: %d: %s", path, a.Status, a.Body)
		}
	}
}

// upgrade asks for a WebSocket, and answers with the status when it is refused.
func upgrade(t *testing.T, url string, header http.Header, protocols ...string) (*websocket.Conn, int) {
	t.Helper()
	dialer := websocket.Dialer{Subprotocols: protocols, HandshakeTimeout: prompt}
	conn, resp, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http"), header)
	if err != nil && resp == nil {
		t.Fatalf("%s: %v", url, err)
	}
	resp.Body.Close()
	return conn, resp.StatusCode
}

// H8: a WebSocket of something private is sent on to a page to log in.
func TestH8_WebSocketsSayWhoMayNot(t *testing.T) {
	t.Parallel()
	service := Controller(t)
	path := service.URL + "/sandboxes/" + Common(t, bashImage).ID() + "/exec/pty"
	for name, c := range map[string]struct {
		query  string
		header http.Header
		offer  []string
		status int
	}{
		"header":      {"", http.Header{"X-Api-Key": {service.Key}}, nil, http.StatusSwitchingProtocols},
		"query":       {"?api_key=" + service.Key, nil, nil, http.StatusSwitchingProtocols},
		"subprotocol": {"", nil, []string{"api_key." + service.Key}, http.StatusSwitchingProtocols},
		"nothing":     {"", nil, nil, http.StatusUnauthorized},
		"wrong":       {"?api_key=wrong", nil, nil, http.StatusForbidden},
	} {
		conn, status := upgrade(t, path+c.query, c.header, c.offer...)
		if status != c.status {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
		if conn != nil {
			conn.Close()
		}
	}
}

// H9: what listens in a sandbox cannot be reached, or by everybody for ever.
func TestH9_PortsAreLentForATime(t *testing.T) {
	t.Parallel()
	all, s := Replicas(t), Begin(t, Roomy(bashImage))
	if got := Envctl(t, nil, "", "cp", program(t, "orchard/test/e2e/kube/serve"), s.ID()+":/tmp/serve"); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	if _, err := s.Start(t.Context(), client.Command{Argv: []string{"/tmp/serve", "8080"}, Concurrent: true, Timeout: time.Hour}); err != nil {
		t.Fatal(err)
	}
	lend := func(ttl string) (link string) {
		t.Helper()
		got := Envctl(t, nil, "", "port", "expose", s.ID(), "8080", "--ttl", ttl)
		if link = strings.TrimSpace(got.Out); got.Code != 0 || !strings.HasPrefix(link, "http://") {
			t.Fatalf("port expose: %+v", got)
		}
		return link
	}
	// at is the same link at one replica.
	at := func(link, replica string) string { return replica + "/p/" + strings.SplitN(link, "/p/", 2)[1] }
	open := func(link string) (int, string) {
		resp, err := http.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	link := lend("10m")
	for _, url := range all {
		Eventually(t, "served", func(context.Context) string {
			if status, body := open(strings.TrimSuffix(at(link, url), "/") + "/some/path"); status != http.StatusOK || body != "hello /some/path\n" {
				return fmt.Sprint(status, body)
			}
			return ""
		})
	}
	var talks []*websocket.Conn
	for _, url := range all {
		conn, status := upgrade(t, strings.TrimSuffix(at(link, url), "/")+"/echo", nil)
		if status != http.StatusSwitchingProtocols {
			t.Fatalf("WebSocket: %d", status)
		}
		defer conn.Close()
		talks = append(talks, conn)
		if err := conn.WriteMessage(websocket.TextMessage, []byte("hi")); err != nil {
			t.Error(err)
		}
		if _, said, err := conn.ReadMessage(); err != nil || string(said) != "hi" {
			t.Errorf("WebSocket: %q, %v", said, err)
		}
	}
	ports, err := s.Ports(t.Context())
	if err != nil || len(ports) != 1 {
		t.Fatalf("%v, %v", ports, err)
	}
	if got := Envctl(t, nil, "", "port", "revoke", s.ID(), ports[0].ID); got.Code != 0 {
		t.Errorf("port revoke: %+v", got)
	}
	for i, url := range all {
		_ = talks[i].SetReadDeadline(time.Now().Add(prompt)) // a failure shows as one of the read
		if _, _, err := talks[i].ReadMessage(); err == nil || os.IsTimeout(err) {
			t.Errorf("an open WebSocket through %s, after the link was revoked: %v", url, err)
		}
		if status, _ := open(at(link, url)); status != http.StatusGone {
			t.Errorf("a revoked link at %s: %d", url, status)
		}
	}
	link = lend("3s")
	Eventually(t, "it expires", func(context.Context) string {
		if status, _ := open(link); status != http.StatusGone {
			return fmt.Sprint(status)
		}
		return ""
	})
	forged := link[:len(link)-5] + "AAAA/"
	if status, _ := open(forged); status != http.StatusUnauthorized {
		t.Errorf("a forged link: %d", status)
	}
}
