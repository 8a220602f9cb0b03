package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// Dial opens a WebSocket of the service, once. The key goes in a header, so no address
// holds it.
func (c *Client) Dial(ctx context.Context, path string) (*websocket.Conn, error) {
	d := websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: AnswerTime}
	if t, ok := c.http.Transport.(*http.Transport); ok {
		d.Proxy, d.TLSClientConfig = t.Proxy, t.TLSClientConfig
	}
	header := http.Header{}
	if c.key != "" {
		header.Set("X-API-Key", c.key)
	}
	conn, resp, err := d.DialContext(ctx, "ws"+strings.TrimPrefix(c.base, "http")+path, header)
	if err == nil {
		return conn, nil
	}
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols && resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}
	return nil, fmt.Errorf("open a WebSocket: %w", err)
}

// Bye closes conn as one that is done with it.
func Bye(conn *websocket.Conn) {
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
	_ = conn.Close() // it is not needed any more, whatever its state
}
