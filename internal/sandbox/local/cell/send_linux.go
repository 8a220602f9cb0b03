package cell

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// maxTrees is what the kernel takes in one message.
const maxTrees = 253

// Send gives a waiting cell its configuration and the trees that it names by Sent. The
// caller keeps its own descriptors.
func Send(conn *net.UnixConn, c *Config, trees []int) error {
	if len(trees) > maxTrees {
		return fmt.Errorf("a sandbox of %d mounts: at most %d", len(trees), maxTrees)
	}
	var rights []byte
	if len(trees) > 0 {
		rights = unix.UnixRights(trees...)
	}
	if _, _, err := conn.WriteMsgUnix([]byte{'\n'}, rights, nil); err != nil {
		return fmt.Errorf("send the mounts: %w", err)
	}
	if err := json.NewEncoder(conn).Encode(c); err != nil {
		return fmt.Errorf("send the configuration: %w", err)
	}
	return nil
}

// receive is the other side of Send.
func receive() (*Config, error) {
	trees, err := receiveTrees()
	if err != nil {
		return nil, fmt.Errorf("receive the mounts: %w", err)
	}
	var c Config
	if err := json.NewDecoder(socket{}).Decode(&c); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	all := []*Tree{&c.Box, &c.Agent.Tree}
	for i := range c.Overlays {
		all = append(all, &c.Overlays[i].Lower)
	}
	for i := range c.Mounts {
		all = append(all, &c.Mounts[i].Tree)
	}
	for _, t := range all {
		if t.Sent > len(trees) {
			return nil, fmt.Errorf("%d mounts came, %s is number %d", len(trees), t.Source, t.Sent)
		}
		if t.Sent > 0 {
			t.fd = trees[t.Sent-1]
		}
	}
	return &c, nil
}

func receiveTrees() ([]int, error) {
	oob := make([]byte, unix.CmsgSpace(4*maxTrees))
	var one [1]byte
	n, oobn, _, _, err := unix.Recvmsg(ConfigFD, one[:], oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("the service is gone")
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	return unix.ParseUnixRights(&messages[0])
}

// socket reads ConfigFD and leaves it open: it carries the error, and its hanging up
// says that the service is gone.
type socket struct{}

func (socket) Read(p []byte) (int, error) {
	n, err := unix.Read(ConfigFD, p)
	if n == 0 && err == nil && len(p) > 0 {
		return 0, errors.New("the service is gone")
	}
	return max(n, 0), os.NewSyscallError("read", err)
}
