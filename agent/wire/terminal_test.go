package wire

import (
	"encoding/json"
	"testing"
)

func FuzzClientFrame(f *testing.F) {
	for _, text := range []string{
		`{"type":"init","cmd":["bash","-c","x"],"env":{},"cwd":null,"rows":24,"cols":80,"login_shell":false}`,
		`{"type":"stdin","data":"aGk="}`, `{"type":"resize","rows":1e99}`, `[]`, `null`, `{"type":null}`, `{"type":"attach","session":"x","offset":-1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		frame, err := ParseClientFrame(text)
		if err != nil {
			return
		}
		if frame.Type == "" || !json.Valid(text) {
			t.Errorf("%q was taken for %+v", text, frame)
		}
	})
}
