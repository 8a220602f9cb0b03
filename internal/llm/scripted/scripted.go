// Package scripted is a policy without a model: a server of chat completions that
// plays tasks it knows the answers to, for demos, tests and load.
//
// It keeps no state between requests. It finds the task by the statement in the
// messages, the step by counting the answers before, and everything it has to decide
// by the request's seed; so the same request always gets the same answer, from any
// copy of the server. It runs real commands that print nothing volatile. It is for
// training nothing: its one model is called "scripted", and all that comes of it must
// be marked so.
//
// Its usage counts are characters divided by four, rounded up.
package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"orchard/datasets/record"
	"orchard/internal/llm"
	"orchard/internal/seal"
)

// Model is the name of the one model, and of the policy in every row it leads to.
const Model = "scripted"

// Options say how well the policy does. Start from Defaults.
type Options struct {
	SolveRate float64 // probability that a rollout hands in the gold patch
	// Weights share out the other rollouts among the endings, in proportion. An ending
	// that is not in it does not occur.
	Weights map[Ending]float64
	// Malformed is the probability of one malformed answer on the way, after which the
	// rollout goes on.
	Malformed float64
	// RunTests has the policy run the task's first test command before and after its
	// change, its output hidden because test runners print times.
	RunTests bool
	// Throttle is the share of requests that are answered 429 with Retry-After: 0,
	// spread evenly. These are counted, and so the one thing not decided by the request.
	Throttle float64
	// Log gets every request before it is answered, when not nil. Calls may overlap.
	Log func(Call)
}

// Defaults is a policy of middling success at which every ending occurs.
func Defaults() Options {
	return Options{
		SolveRate: 0.6, Malformed: 0.1,
		Weights: map[Ending]float64{Wrong: 5, Empty: 1, StepLimit: 1, Malformed: 1, Stuck: 1},
	}
}

// validate reports what cannot be meant.
func (o Options) validate() error {
	var errs []error
	for name, p := range map[string]float64{"solve rate": o.SolveRate, "malformed rate": o.Malformed, "throttle": o.Throttle} {
		if !(p >= 0 && p <= 1) {
			errs = append(errs, fmt.Errorf("%s %v: must be from 0 to 1", name, p))
		}
	}
	sum := 0.0
	for e, w := range o.Weights {
		if !e.known() {
			errs = append(errs, fmt.Errorf("no ending %q; there are %v", e, endings))
		}
		if !(w >= 0) {
			errs = append(errs, fmt.Errorf("weight of %s: %v, must not be negative", e, w))
		}
		sum += w
	}
	if sum <= 0 && o.SolveRate < 1 {
		errs = append(errs, errors.New("no ending has a weight, and the solve rate is below 1"))
	}
	return errors.Join(errs...)
}

// Call is one request as the log has it. Two calls with equal Task, Seed and Step are
// a repetition: by a retry, or of a unit that had been done.
type Call struct {
	N      int64  `json:"n"`    // of this server, from 1
	Task   string `json:"task"` // "" when the messages have no known statement
	Seed   int64  `json:"seed"`
	Step   int    `json:"step"`
	Status int    `json:"status"` // of the answer
}

// LogTo writes calls to w, one JSON object a line. Errors of w are dropped: the log is
// for tests, and a policy does not fail for its log.
func LogTo(w io.Writer) func(Call) {
	var mu sync.Mutex
	return func(c Call) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(c)
	}
}

// Server is the policy as an HTTP handler: POST /v1/chat/completions, GET /v1/models,
// GET /healthz. Safe for concurrent use.
type Server struct {
	o     Options
	tasks index
	mux   *http.ServeMux
	n     atomic.Int64
}

var _ http.Handler = (*Server)(nil)

// New is a policy that can play these tasks. Gold patches must be whole: one whose
// bytes are in a blob is refused, so fetch it first.
func New(tasks []record.Task, o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("scripted policy: %w", err)
	}
	ix, err := newIndex(tasks)
	if err != nil {
		return nil, fmt.Errorf("scripted policy: %w", err)
	}
	s := &Server{o: o, tasks: ix, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		send(w, http.StatusOK, []byte(`{"object":"list","data":[{"id":"scripted","object":"model","owned_by":"orchard"}]}`))
	})
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		send(w, http.StatusOK, []byte(`{"status":"ok"}`))
	})
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// maxBody bounds a request; a long conversation has a few megabytes.
const maxBody = 64 << 20

// chat plays one step.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	call := Call{N: s.n.Add(1), Status: http.StatusOK}
	refuse := func(status int, code, message string) {
		call.Status = status
		s.log(call)
		sendError(w, status, code, message)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(http.StatusRequestEntityTooLarge, "body", err.Error())
		return
	}
	model, req, err := llm.DecodeRequest(body)
	switch {
	case err != nil:
		refuse(http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	case model != Model:
		refuse(http.StatusNotFound, "model_not_found", fmt.Sprintf("there is no model %q here, only %q", model, Model))
		return
	}
	if req.Seed != nil {
		call.Seed = *req.Seed
	}
	task, ok := s.tasks.find(req.Messages)
	if !ok {
		refuse(http.StatusBadRequest, "unknown_task", "no message has the statement of a task that this server was started with (--tasks)")
		return
	}
	talk := read(req)
	call.Task, call.Step = task.TaskID, talk.step
	if s.throttled(call.N) {
		w.Header().Set("Retry-After", "0")
		refuse(http.StatusTooManyRequests, "rate_limit_exceeded", "asked to refuse some requests")
		return
	}
	s.log(call)
	resp, looksBack := hindsight(req, call.Seed)
	if !looksBack {
		resp = talk.answer(s.o.plan(task, call.Seed, talk.protocol).at(talk.step))
	}
	resp.Model = Model
	resp.ID = "scripted-" + seal.ID(task.TaskID, fmt.Sprint(call.Seed), fmt.Sprint(talk.step))[:24]
	resp.Usage = count(req, resp)
	if req.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(llm.EncodeStream(resp, 24)) // a client that went away asks again
		return
	}
	send(w, http.StatusOK, llm.EncodeWhole(resp))
}

func (s *Server) log(c Call) {
	if s.o.Log != nil {
		s.o.Log(c)
	}
}

// throttled reports whether the n-th request is one of the share to refuse.
func (s *Server) throttled(n int64) bool {
	return int64(float64(n)*s.o.Throttle) > int64(float64(n-1)*s.o.Throttle)
}

func send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func sendError(w http.ResponseWriter, status int, code, message string) {
	body, err := json.Marshal(map[string]any{"error": map[string]string{"message": message, "type": code, "code": code}})
	if err != nil {
		panic(err) // strings always marshal
	}
	send(w, status, body)
}

// count is the stated simple count: a quarter of the characters, rounded up.
func count(r llm.Request, resp llm.Response) *llm.Usage {
	prompt := 0
	for _, m := range r.Messages {
		prompt += characters(m)
	}
	for _, t := range r.Tools {
		prompt += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return &llm.Usage{PromptTokens: int64(prompt+3) / 4, CompletionTokens: int64(characters(resp.Message)+3) / 4}
}

func characters(m llm.Message) int {
	n := len([]rune(m.Content)) + len([]rune(m.Reasoning))
	for _, c := range m.ToolCalls {
		n += len(c.Name) + len([]rune(c.Arguments))
	}
	return n
}
