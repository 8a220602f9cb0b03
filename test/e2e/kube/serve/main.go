// Command serve is a program that listens in a sandbox, for tests of how it is reached from
// outside: serve PORT answers HTTP on the loopback with "hello", and at /echo repeats what it is
// told over a WebSocket.
package main

import (
	"fmt"
	"net/http"
	"os"

	"github.com/gorilla/websocket"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello", r.URL.Path) })
	http.HandleFunc("/echo", echo)
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
	os.Exit(1)
}

func echo(w http.ResponseWriter, r *http.Request) {
	any := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := any.Upgrade(w, r, nil)
	if err != nil {
		return // it has been answered
	}
	defer conn.Close()
	for {
		kind, said, err := conn.ReadMessage()
		if err != nil || conn.WriteMessage(kind, said) != nil {
			return
		}
	}
}
