package control

import (
	"net/http"
	"strconv"
	"time"

	"orchard/internal/seal"
)

func head(w http.ResponseWriter, status, length int) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(status)
}

// writeJSON answers with v. An error of the connection is the client's to notice.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := seal.JSON(v)
	if err != nil { // only for a type that cannot be JSON
		panic(err)
	}
	head(w, status, len(b))
	w.Write(b)
}

// settle is how long an answer to a repeated request must find its client in place. The
// repeat says that connections break here, maybe a moment after the request as before.
const settle = 2 * time.Second

// writeDelivered answers with v and calls begin when the client is there to take
// it, before the client can have the whole: the last byte waits for begin, and its end follows
// at once. So a client that has its answer may send the same request again and means it,
// while one whose connection broke, or whose controller died, is known not to have it.
func writeDelivered(w http.ResponseWriter, r *http.Request, v any, repeated bool, begin func() (end func(sent bool))) error {
	b, err := seal.JSON(v)
	if err != nil {
		return err
	}
	head(w, http.StatusOK, len(b))
	last := len(b) - 1
	if _, err := w.Write(b[:last]); err != nil {
		return nil
	}
	rc := http.NewResponseController(w)
	if err := rc.Flush(); err != nil {
		return nil
	}
	if repeated {
		select {
		case <-r.Context().Done():
		case <-time.After(settle):
		}
	}
	if r.Context().Err() != nil {
		return nil
	}
	end := begin()
	if r.Context().Err() != nil {
		end(false)
		return nil
	}
	_, err = w.Write(b[last:])
	if err == nil {
		err = rc.Flush()
	}
	end(err == nil)
	return nil
}
