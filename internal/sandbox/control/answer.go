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

// writeDelivered answers with v and calls delivered when the client is there to take
// it, before the client can have the whole: the last byte waits for delivered. So a
// client that has its answer may send the same request again and means it, while one
// whose connection broke is known not to have it.
func writeDelivered(w http.ResponseWriter, r *http.Request, v any, repeated bool, delivered func()) error {
	b, err := seal.JSON(v)
	if err != nil {
		return err
	}
	head(w, http.StatusOK, len(b))
	last := len(b) - 1
	if _, err := w.Write(b[:last]); err != nil {
		return nil
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
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
	delivered()
	w.Write(b[last:])
	return nil
}
