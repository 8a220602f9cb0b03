package llmtest

import (
	"encoding/pem"
	"io"
	"log"
)

// silent is for faults that a test provokes on purpose.
var silent = log.New(io.Discard, "", 0)

func certificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
