package mem

import (
	"testing"

	"orchard/internal/objstore"
	"orchard/internal/objstore/objtest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	objtest.Run(t, func(*testing.T) objstore.Store { return &Store{} })
}
