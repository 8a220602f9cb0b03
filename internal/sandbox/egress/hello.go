package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"time"
)

// maxHello bounds what a client may send before its name is known.
const maxHello = 64 << 10

// readHello reads the beginning of a TLS connection: the name it asks for, and the very
// bytes read, to be sent on.
func readHello(r io.Reader) (name string, read io.Reader, err error) {
	var seen bytes.Buffer
	found := errors.New("hello read")
	config := &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = strings.TrimSuffix(strings.ToLower(h.ServerName), ".")
		return nil, found
	}}
	err = tls.Server(listening{io.TeeReader(io.LimitReader(r, maxHello), &seen)}, config).HandshakeContext(context.Background())
	if !errors.Is(err, found) {
		return "", nil, err
	}
	return name, &seen, nil
}

// listening is a connection that can only be read: nothing is answered here.
type listening struct{ io.Reader }

func (listening) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }
func (listening) Close() error                     { return nil }
func (listening) LocalAddr() net.Addr              { return nil }
func (listening) RemoteAddr() net.Addr             { return nil }
func (listening) SetDeadline(time.Time) error      { return nil }
func (listening) SetReadDeadline(time.Time) error  { return nil }
func (listening) SetWriteDeadline(time.Time) error { return nil }
