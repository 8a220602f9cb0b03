package minio

import "testing"

// Services are the servers that tests of other packages' work use: a fake one, and the
// real one of the test cluster.
var Services = map[string]func(testing.TB) (Config, string){
	"fake": func(t testing.TB) (Config, string) { s := fake(t); return s.cfg, s.bucket },
	"real": func(t testing.TB) (Config, string) { s := realService(t); return s.cfg, s.bucket },
}
