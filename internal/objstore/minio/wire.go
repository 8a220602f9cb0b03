package minio

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

// errIdle: the other side went silent.
var errIdle = errors.New("no byte moved for too long")

// errForeign: whoever answered speaks no S3. That is a wrong address, and never means
// that there is nothing.
var errForeign = errors.New("does not answer as an S3 service does: is AWS_ENDPOINT_URL_S3 right?")

// wire gives up requests on which nothing moves, and tells who listens what was answered.
type wire struct {
	http.RoundTripper
	idle time.Duration
}

// answer is what the last response of a call said besides its content.
type answer struct {
	date time.Time // the server's clock; zero when it did not say
}

type answerKey struct{}

// listen is a context whose calls report to the answer.
func listen(ctx context.Context) (context.Context, *answer) {
	a := &answer{}
	return context.WithValue(ctx, answerKey{}, a), a
}

// modified is when a write was done by the server's clock, near enough.
func (a *answer) modified() time.Time {
	if a.date.IsZero() {
		return time.Now().UTC().Truncate(time.Second)
	}
	return a.date.UTC()
}

// RoundTrip does a request. The timer runs from each byte of the request to the next and
// to the first of the answer, and while the answer's reader waits: a reader that takes
// its time is not the server's fault.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(w.idle, func() { cancel(errIdle) })
	req = req.WithContext(ctx)
	if req.Body != nil {
		req.Body = &moving{ReadCloser: req.Body, idle: w.idle, timer: timer}
	}
	resp, err := w.RoundTripper.RoundTrip(req)
	timer.Stop()
	if err != nil {
		cancel(nil)
		return nil, cause(ctx, err)
	}
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		a.date, _ = http.ParseTime(resp.Header.Get("Date"))
	}
	if foreign(req, resp) {
		cancel(nil)
		return nil, errors.Join(errForeign, resp.Body.Close())
	}
	resp.Body = &moving{ReadCloser: resp.Body, idle: w.idle, timer: timer, ctx: ctx, cancel: cancel}
	return resp, nil
}

// foreign tells the answers of web servers, consoles and login pages. A page that says to
// come back later may be of a proxy before the service. An object may be a page.
func foreign(req *http.Request, resp *http.Response) bool {
	kind := resp.Header.Get("Content-Type")
	switch n := resp.StatusCode; {
	case n == http.StatusRequestTimeout, n == http.StatusTooManyRequests, n >= 500:
		return false
	case n >= 300:
		return strings.HasPrefix(kind, "text/html")
	}
	return req.URL.Query().Has("list-type") && !strings.Contains(kind, "xml")
}

func cause(ctx context.Context, err error) error {
	if err != nil && err != io.EOF && errors.Is(context.Cause(ctx), errIdle) {
		return errIdle
	}
	return err
}

// moving is a body whose reading winds the timer. ctx and cancel are those of a response.
type moving struct {
	io.ReadCloser
	idle   time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (m *moving) Read(p []byte) (int, error) {
	m.timer.Reset(m.idle)
	n, err := m.ReadCloser.Read(p)
	if m.cancel == nil {
		return n, err
	}
	m.timer.Stop()
	return n, cause(m.ctx, err)
}

func (m *moving) Close() error {
	err := m.ReadCloser.Close()
	if m.cancel != nil {
		m.timer.Stop()
		m.cancel(nil)
	}
	return err
}
