package scripted_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"orchard/datasets"
	"orchard/jobs/scripted"
)

// A server that follows tasks starts before there are any, and says so to who asks.
func TestFollowNeedsNoTasksYet(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	app := &cli.App{ErrWriter: w, ExitErrHandler: func(*cli.Context, error) {}, Commands: []*cli.Command{scripted.Command(datasets.Stores)}}
	tasks := filepath.Join(t.TempDir(), "tasks")
	go func() {
		ended <- app.RunContext(ctx, []string{"llm", "scripted", "--follow", "--tasks", tasks, "--listen", "127.0.0.1:0"})
		w.Close()
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	url := regexp.MustCompile(`http://\S+/v1`).FindString(line)
	if url == "" || !strings.Contains(line, tasks) {
		t.Fatalf("it says %q, %v", line, err)
	}
	resp, err := http.Post(url+"/chat/completions", "application/json", strings.NewReader(`{"model":"scripted","messages":[{"role":"user","content":"mend it"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode/100 != 4 {
		t.Errorf("%s %s, %v", resp.Status, body, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopped: %v", err)
	}
}
