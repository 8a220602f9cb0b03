package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/rs/zerolog"

	"orchard/internal/logx"
)

// errUndelivered breaks off a delivery whose client is gone.
var errUndelivered = errors.New("the answer did not reach its client")

// delivery is an answer on its way to a client, as the job's agent sees it: a request whose body ends
// well when the answer was sent. When this process dies in between, the connection breaks with
// it, and the agent knows that the answer may not have arrived.
type delivery struct {
	body   *io.PipeWriter
	answer io.ReadCloser
	cancel context.CancelFunc
}

// deliver begins a delivery and returns when the agent knows of it. What becomes of the
// client does not end it: end does.
func (a agentClient) deliver(ctx context.Context, id string) (*delivery, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	r, w := io.Pipe()
	resp, err := a.do(ctx, http.MethodPut, "/v1/jobs/"+id+"/delivered", nil, r, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	return &delivery{body: w, answer: resp.Body, cancel: cancel}, nil
}

// end says whether the answer was sent. It does not wait for the agent, as the client has all
// it waited for; failed is told when the agent could not be.
func (d *delivery) end(sent bool, failed func(error)) {
	if !sent {
		d.body.CloseWithError(errUndelivered)
		d.answer.Close()
		d.cancel()
		return
	}
	d.body.Close()
	go func() { // ends by its own limit
		defer d.cancel()
		defer d.answer.Close()
		if _, err := io.Copy(io.Discard, d.answer); err != nil {
			failed(fmt.Errorf("end of a delivery: %w", err))
		}
	}()
}

// delivering begins the delivery of a job's answer; the returned function ends it. An agent
// that cannot be told is no error of the answer: an equal command within a minute would be
// taken for this one.
func (s *Service) delivering(ctx context.Context, st State, job string) (end func(sent bool)) {
	complain := func(err error) {
		zerolog.Ctx(ctx).Warn().Err(err).Str(logx.Sandbox, st.Spec.ID).Msg("agent not told of a delivered answer")
	}
	a, err := s.agent(ctx, st.Spec.ID)
	var d *delivery
	if err == nil {
		d, err = a.deliver(ctx, job)
	}
	if err != nil {
		complain(err)
		return func(bool) {}
	}
	return func(sent bool) { d.end(sent, complain) }
}
