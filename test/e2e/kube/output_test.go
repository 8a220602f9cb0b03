package kube_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"orchard/envctl/client"
)

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// B1: empty lines, carriage returns or the missing end of a last line get lost.
func TestB1_OutputIsByteExact(t *testing.T) {
	t.Parallel()
	url := Controller(t).URL
	for _, image := range shells {
		id := Common(t, image).ID()
		for _, text := range []string{`a\n\n\nb`, `\n`, `\n\n`, `a\r\nb\r`, ` \t `, `\033[1mx\033[0m\b`} {
			want, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `\033`, `\x1b`) + `"`)
			if err != nil {
				t.Fatal(err)
			}
			j := Exec(t, url, id, "printf '"+text+"'; printf '"+text+"' >&2", "concurrent", true)
			if j.Stdout != want || j.Stderr != want {
				t.Errorf("%s: %q came as %q and %q", short(image), want, j.Stdout, j.Stderr)
			}
		}
	}
	line := strings.Repeat("x", 1<<20)
	if j := Exec(t, url, Common(t, bashImage).ID(), "head -c 1048576 /dev/zero | tr '\\0' x", "concurrent", true); j.Stdout != line || j.StdoutTruncated {
		t.Errorf("a line of 1 MiB came as %d bytes", len(j.Stdout))
	}
}

// B2: output that is no text, or a character that comes in two parts, breaks the stream.
func TestB2_BinaryOutput(t *testing.T) {
	t.Parallel()
	url, s := Controller(t).URL, Common(t, bashImage)
	for text, want := range map[string]string{`\360\237'; sleep 0.5; printf '\230\200`: "😀", `a\377\000\303b`: "a\uFFFD\x00\uFFFDb"} {
		if j := Exec(t, url, s.ID(), "printf '"+text+"'", "concurrent", true); j.Stdout != want {
			t.Errorf("%q came as %q", want, j.Stdout)
		}
	}
	Run(t, s, "head -c 1048576 /dev/urandom >/tmp/b2")
	want := strings.Fields(string(Run(t, s, "sha256sum /tmp/b2").Stdout))[0]
	var streamed bytes.Buffer
	job, err := s.Start(t.Context(), client.Command{Shell: "cat /tmp/b2", Concurrent: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Follow(t.Context(), &streamed, io.Discard); err != nil || sum(streamed.Bytes()) != want {
		t.Errorf("streamed: %v, %d bytes of another sum", err, streamed.Len())
	}
	for name, got := range map[string][]byte{
		"download":   Reply(t, "GET", url+"/sandboxes/"+s.ID()+"/raw?path=/tmp/b2", nil).Body,
		"raw output": Reply(t, "GET", url+"/jobs/"+job.ID()+"/output", nil).Body,
	} {
		if sum(got) != want {
			t.Errorf("%s: %d bytes of another sum", name, len(got))
		}
	}
	a := Reply(t, "GET", url+"/jobs/"+job.ID(), nil)
	var j Job
	into(t, a, &j)
	if !utf8.Valid(a.Body) || !strings.ContainsRune(j.Stdout, utf8.RuneError) {
		t.Error("the job's answer is no JSON text with U+FFFD for what is none")
	}
	into(t, Reply(t, "GET", url+"/jobs/"+job.ID()+"?output=base64", nil), &j)
	if sum(j.StdoutBase64) != want {
		t.Error("base64 of the output is of another sum")
	}
}

// B3: output without end blocks its command, or fills the memory of the sandbox's agent. The
// kernel's own peak of the agent is read by the kubelet, from outside.
func TestB3_HugeOutputTakesNoMemory(t *testing.T) {
	t.Parallel()
	url, spec, size := Controller(t).URL, Roomy(bashImage), 300
	if soak {
		size = 3000
	}
	spec.Memory = "128Mi"
	id := Begin(t, spec).ID()
	j := Exec(t, url, id, fmt.Sprintf("echo head; head -c %dM /dev/zero | tr '\\0' x; echo tail; exit 3", size), "timeout_seconds", 600)
	if j.ExitCode == nil || *j.ExitCode != 3 || j.Reason != "" || !j.StdoutTruncated || j.StdoutBytes != int64(size)<<20+10 {
		t.Errorf("exit 3 and %d MiB came as %v, %d bytes, truncated %v", size, j, j.StdoutBytes, j.StdoutTruncated)
	}
	if !strings.HasPrefix(j.Stdout, "head\nxxx") || !strings.HasSuffix(j.Stdout, "xxxtail\n") {
		t.Errorf("head and tail are %.20q and %q", j.Stdout, j.Stdout[max(0, len(j.Stdout)-20):])
	}
	status := Inside(t, id, "grep", "VmHWM", "/proc/1/status")
	var kib int
	if _, err := fmt.Sscanf(status, "VmHWM: %d kB", &kib); err != nil || kib > 64<<10 {
		t.Errorf("the agent's peak: %q, %v; want at most 64 MiB", status, err)
	}
	t.Logf("%d MiB of output, agent's peak %d KiB", size, kib)
}

// B5: a command stands still because nobody reads what it prints.
func TestB5_NobodyNeedsToRead(t *testing.T) {
	t.Parallel()
	url, id := Controller(t).URL, Begin(t, Roomy(bashImage)).ID()
	for name, query := range map[string]string{"nobody asks": "", "a stream that is opened and not read": "?stream=1"} {
		raw, err := json.Marshal(map[string]any{"command": "head -c 100M /dev/zero | tr '\\0' x", "concurrent": true})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "POST", url+"/sandboxes/"+id+"/exec"+query, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", Controller(t).Key)
		resp, err := once.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		Eventually(t, name, func(context.Context) string {
			a := Reply(t, "GET", url+"/sandboxes/"+id+"/jobs", nil)
			if strings.Contains(string(a.Body), `"running"`) || strings.Contains(string(a.Body), `"queued"`) || !strings.Contains(string(a.Body), `"succeeded"`) {
				return string(a.Body)
			}
			return ""
		})
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// B6: every command takes a second longer than it does, or a strict client waits for the end
// of an answer that has none.
func TestB6_AnswersEndAtOnceAndProperly(t *testing.T) {
	t.Parallel()
	s, service := Common(t, shImage), Controller(t)
	began, n := time.Now(), 60
	for range n {
		Run(t, s, ":")
	}
	if took := time.Since(began); took > prompt {
		t.Errorf("%d commands that do nothing took %v", n, took)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(service.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(prompt)); err != nil {
		t.Fatal(err)
	}
	from, body := bufio.NewReader(conn), `{"command":"echo a; sleep 0.3; echo b","concurrent":true}`
	for range 2 { // the second one only works where the first one's answer was complete
		fmt.Fprintf(conn, "POST /sandboxes/%s/exec?stream=1 HTTP/1.1\r\nHost: x\r\nX-API-Key: %s\r\nContent-Length: %d\r\n\r\n%s", s.ID(), service.Key, len(body), body)
		if got := chunked(t, from); !strings.Contains(got, "event: exit\n") || strings.Count(got, "event: stdout\n") == 0 {
			t.Errorf("streamed answer: %s", got)
		}
	}
}

// chunked reads one answer as HTTP/1.1 has it, to the letter.
func chunked(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	line := func() string {
		s, err := from.ReadString('\n')
		if err != nil || !strings.HasSuffix(s, "\r\n") {
			t.Fatalf("line %q: %v", s, err)
		}
		return strings.TrimSuffix(s, "\r\n")
	}
	if s := line(); s != "HTTP/1.1 200 OK" {
		t.Fatal(s)
	}
	isChunked := false
	for s := line(); s != ""; s = line() {
		isChunked = isChunked || strings.EqualFold(s, "Transfer-Encoding: chunked")
	}
	if !isChunked {
		t.Fatal("the answer is not chunked")
	}
	var all strings.Builder
	for {
		size, err := strconv.ParseInt(line(), 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(&all, from, size); err != nil {
			t.Fatal(err)
		}
		if end := line(); end != "" {
			t.Fatalf("%q after a chunk of %d", end, size)
		}
		if size == 0 {
			return all.String()
		}
	}
}

// B8: a log of some megabytes is cut, or one of many is held in memory whole.
func TestB8_OutputUpToTheCapComesWhole(t *testing.T) {
	t.Parallel()
	url, s := Controller(t).URL, Begin(t, Roomy(bashImage))
	lines := "seq -f '%%09.0f' %d"
	whole := Exec(t, url, s.ID(), fmt.Sprintf(lines, 1_000_000))
	got := JobOf(t, url, whole.ID)
	want := strings.Fields(string(Run(t, s, fmt.Sprintf(lines, 1_000_000)+" | sha256sum").Stdout))[0]
	for name, j := range map[string]Job{"exec": whole, "job": got} {
		if sum([]byte(j.Stdout)) != want || j.StdoutTruncated || j.StdoutBytes != 10_000_000 {
			t.Errorf("%s: 10 MB came as %d bytes, truncated %v", name, len(j.Stdout), j.StdoutTruncated)
		}
	}
	large := Exec(t, url, s.ID(), fmt.Sprintf(lines, 5_000_000))
	if !large.StdoutTruncated || large.StdoutBytes != 50_000_000 || large.StdoutFile == "" ||
		!strings.HasPrefix(large.Stdout, "000000001\n") || !strings.HasSuffix(large.Stdout, "\n005000000\n") {
		t.Errorf("50 MB: %d bytes, truncated %v, file %q, %.20q", large.StdoutBytes, large.StdoutTruncated, large.StdoutFile, large.Stdout)
	}
	want = strings.Fields(string(Run(t, s, fmt.Sprintf(lines, 5_000_000)+" | sha256sum").Stdout))[0]
	if a := Reply(t, "GET", url+"/sandboxes/"+s.ID()+"/raw?path="+large.StdoutFile, nil); a.Status != http.StatusOK || sum(a.Body) != want {
		t.Errorf("the whole as file %s: %d, %d bytes", large.StdoutFile, a.Status, len(a.Body))
	}
}

// B9: a terminal on which nothing happens for ten seconds is dropped by clients that read
// with that limit, as the original's does; what comes from the service must not be further apart.
func TestB9_ASilentTerminalStaysAlive(t *testing.T) {
	t.Parallel()
	service, id := Controller(t), Common(t, bashImage).ID()
	conn, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(service.URL, "http")+"/sandboxes/"+id+"/exec/pty?api_key="+service.Key, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer conn.Close()
	alive := func() error { return conn.SetReadDeadline(time.Now().Add(10 * time.Second)) }
	pong := conn.PingHandler()
	conn.SetPingHandler(func(data string) error {
		if err := alive(); err != nil {
			return err
		}
		return pong(data)
	})
	if err := conn.WriteJSON(map[string]any{"type": "init", "cmd": []string{"sh", "-c", "sleep 15; echo late"}, "env": map[string]string{}}); err != nil {
		t.Fatal(err)
	}
	var said []byte
	for {
		if err := alive(); err != nil {
			t.Fatal(err)
		}
		var f struct {
			Type string
			Data []byte
			Code int
		}
		if err := conn.ReadJSON(&f); err != nil {
			t.Fatalf("after %q: %v", said, err)
		}
		said = append(said, f.Data...)
		if f.Type == "exit" {
			if string(said) != "late\r\n" || f.Code != 0 {
				t.Errorf("%q, exit code %d", said, f.Code)
			}
			return
		}
	}
}
