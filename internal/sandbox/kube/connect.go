package kube

import (
	"crypto/ed25519"

	"k8s.io/client-go/kubernetes"

	"orchard/internal/exit"
)

// Client is a connection to the cluster of o, for programs that are no runtime. It asks
// nothing yet.
func Client(o Options) (kubernetes.Interface, error) {
	quiet()
	return o.connect()
}

// SigningKey is the controllers' private key that o names.
func SigningKey(o Options) (ed25519.PrivateKey, error) {
	if o.KeyFile == "" && o.Key == nil {
		return nil, exit.Configf("--signing-key-file: missing")
	}
	return o.key()
}
