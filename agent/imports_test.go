package agent_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What runs inside every sandbox is kept small: this package has the standard library,
// its wire format, WebSockets and system calls.
func TestImports(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "orchard/agent").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	if want := []string{"github.com/gorilla/websocket", "golang.org/x/net/internal/socks", "golang.org/x/net/proxy", "golang.org/x/sys/unix", "orchard/agent", "orchard/agent/wire"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
