package agent

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryWatch(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"v2": "low 0\nmax 7\noom 3\noom_kill %\noom_group_kill 0\n", "v1": "oom_kill_disable 0\nunder_oom 0\noom_kill %\n"} {
		file := filepath.Join(t.TempDir(), name)
		write := func(n string) {
			content := ""
			for _, c := range text {
				if c == '%' {
					content += n
				} else {
					content += string(c)
				}
			}
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("2")
		w := watchMemory([]string{filepath.Join(t.TempDir(), "none"), file})
		if w.file != file || w.ranOut() {
			t.Errorf("%s: it ran out before it ran: %+v", name, w)
		}
		write("3")
		for range 2 { // it stays so
			if !w.ranOut() {
				t.Errorf("%s: a kill was not seen", name)
			}
		}
		select {
		case <-w.out:
		default:
			t.Errorf("%s: the sandbox does not end", name)
		}
	}
	if w := watchMemory([]string{"/nowhere"}); w.ranOut() {
		t.Error("nothing to see, and it ran out")
	}
}
