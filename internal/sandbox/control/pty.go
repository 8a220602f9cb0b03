package control

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// pty joins a client's WebSocket with the agent, which is the one that speaks it: the
// frames are agent/wire's. What is wrong with the request is answered before that, as
// plain HTTP; clients of the original see a handshake that failed.
func (s *Service) pty(w http.ResponseWriter, r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return fail(http.StatusUpgradeRequired, "this is a WebSocket")
	}
	st, a, err := s.ready(r.Context(), r.PathValue("id"))
	var away *failure
	if errors.As(err, &away) && away.status == http.StatusServiceUnavailable && st.Phase == Pending {
		return fail(http.StatusConflict, "%s", away.detail)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	late := time.AfterFunc(answerTime, cancel)
	resp, err := a.do(ctx, http.MethodGet, "/v1/terminal", nil, nil, func(to *http.Request) {
		to.Header.Set("Connection", "Upgrade")
		to.Header.Set("Upgrade", "websocket")
		for _, name := range []string{"Sec-Websocket-Key", "Sec-Websocket-Version"} {
			to.Header[name] = r.Header[name]
		}
	})
	late.Stop()
	if err != nil {
		return s.agentFault(r.Context(), st, err, "Sandbox "+st.Spec.ID+" has no terminals")
	}
	defer resp.Body.Close()
	return s.join(w, resp)
}

// join answers as the agent did, and passes all that follows, both ways, until one side
// has ended or the service drains: a client that kept its session attaches to it again.
func (s *Service) join(w http.ResponseWriter, resp *http.Response) error {
	agent, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		return away(5, "the sandbox's agent does not upgrade")
	}
	if rec, ok := w.(*recorder); ok {
		rec.status = http.StatusSwitchingProtocols
	}
	client, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	var once sync.Once
	end := func() { once.Do(func() { client.Close(); agent.Close() }) }
	defer end()
	stop := context.AfterFunc(s.drain, end)
	defer stop()
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Accept: " + resp.Header.Get("Sec-WebSocket-Accept") + "\r\nX-Request-ID: " + w.Header().Get("X-Request-ID") + "\r\n\r\n"
	if _, err := io.WriteString(client, head); err != nil {
		return nil
	}
	var back sync.WaitGroup
	back.Go(func() {
		defer end()
		_, _ = io.Copy(client, agent)
	})
	_, _ = io.Copy(agent, early)
	end()
	back.Wait()
	return nil
}

// socketKey is the API key of a request that a browser or the original's client makes:
// neither can always set a header. In the query it stands as it is, not URL-quoted.
func (s *Service) socketKey(r *http.Request) string {
	if key := r.Header.Get("X-API-Key"); key != "" {
		return key
	}
	for _, offered := range strings.Split(strings.Join(r.Header.Values("Sec-Websocket-Protocol"), ","), ",") {
		if key, ok := strings.CutPrefix(strings.TrimSpace(offered), "api_key."); ok {
			return key
		}
	}
	for _, part := range strings.Split(r.URL.RawQuery, "&") {
		raw, ok := strings.CutPrefix(part, "api_key=")
		if !ok {
			continue
		}
		if _, known := s.keys.find(r.Context(), raw); known {
			return raw
		}
		if key, err := url.QueryUnescape(raw); err == nil {
			return key
		}
		return raw
	}
	return ""
}
