// Command etcd is the store behind the test cluster's API server: etcd as it is published,
// from the module versions that go.mod pins.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
