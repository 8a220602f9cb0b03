package agent

import (
	"errors"
	"fmt"
	"os"
)

// Copy puts this program at args[0], for an init container that has nothing else.
func Copy(args []string) error {
	if len(args) != 1 {
		return errors.New("want one argument, the file to make")
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer self.Close()
	mode := uint32(0o755)
	if _, err := put(args[0], self, &mode); err != nil {
		return fmt.Errorf("write %s: %w", args[0], err)
	}
	return nil
}
