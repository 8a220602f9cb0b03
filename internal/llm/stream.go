package llm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// errCut says that a stream ended without its terminal event: what came is not a
// short answer but no answer.
var errCut = errors.New("the stream ended before its end was announced")

// readStream reads a streamed answer to its end.
func readStream(from io.Reader) (Response, error) {
	var asm assembly
	chunks := 0
	for events := newEvents(from); ; {
		data, err := events.next()
		switch {
		case errors.Is(err, io.EOF) && chunks == 0:
			return Response{}, unstreamed(events.head)
		case errors.Is(err, io.EOF):
			return Response{}, errCut
		case err != nil:
			return Response{}, err
		}
		if string(data) == "[DONE]" {
			break
		}
		var a wireAnswer
		if err := json.Unmarshal(data, &a); err != nil {
			return Response{}, nonsense("the stream has an event that is no JSON", data)
		}
		if err := a.failure(); err != nil {
			return Response{}, err
		}
		chunks++
		asm.head(a) // the chunk with the usage has no choices
		for _, ch := range a.Choices {
			if ch.Index != 0 {
				continue
			}
			asm.tokens(ch)
			if ch.Delta == nil {
				ch.Delta = &wireMessage{} // a last chunk may have the finish reason only
			}
			asm.message(ch.Delta, ch.FinishReason)
		}
	}
	if asm.r.FinishReason == "" {
		return Response{}, errCut
	}
	return asm.response()
}

// unstreamed is what is wrong with an answer that has no events: it may be an error
// that the server sent as JSON with status 200.
func unstreamed(head []byte) error {
	var a wireAnswer
	if json.Unmarshal(head, &a) == nil {
		if err := a.failure(); err != nil {
			return err
		}
	}
	return nonsense("the answer is no event stream", head)
}

// events reads the data of server-sent events. Event names, ids and retry hints mean
// nothing in this protocol.
type events struct {
	lines *bufio.Scanner
	head  []byte // the first bytes, for the error message
}

func newEvents(from io.Reader) *events {
	s := bufio.NewScanner(from)
	s.Buffer(make([]byte, 0, 4096), DefaultMaxBytes)
	s.Split(splitLine)
	return &events{lines: s}
}

// next is the data of the next event, its data lines joined by line feeds. Comments
// and events without data are passed over; io.EOF ends the stream, and with it an
// event that was not finished by an empty line.
func (e *events) next() ([]byte, error) {
	var data []byte
	some := false
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if len(e.head) < maxDetail {
			e.head = append(append(e.head, line...), '\n')
		}
		if len(line) == 0 {
			if some && len(data) > 0 {
				return data, nil
			}
			some = false
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data"))
		if !ok || (len(value) > 0 && value[0] != ':') {
			continue
		}
		value = bytes.TrimPrefix(bytes.TrimPrefix(value, []byte(":")), []byte(" "))
		if some {
			data = append(data, '\n')
		}
		data, some = append(data, value...), true
	}
	if err := e.lines.Err(); err != nil {
		return nil, err
	}
	// A server that closes right after [DONE] has said what matters.
	if string(data) == "[DONE]" {
		return data, nil
	}
	return nil, io.EOF
}

// splitLine ends a line at CR LF, LF or CR.
func splitLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && atEOF && len(data) > 0:
		return len(data), data, nil
	case i < 0:
		return 0, nil, nil
	case data[i] == '\n':
		return i + 1, data[:i], nil
	case i+1 == len(data) && !atEOF:
		return 0, nil, nil // the LF may be on its way
	case i+1 < len(data) && data[i+1] == '\n':
		return i + 2, data[:i], nil
	}
	return i + 1, data[:i], nil
}
