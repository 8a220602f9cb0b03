package datasets

// Where things lie in a store, by the name of their dataset; docs/dataset-format.md has all
// of it. Whoever reads or writes objects of a dataset asks here.

// BlobKey is where a blob lies, which is of no dataset.
func BlobKey(sha string) string { return "blobs/" + sha }

// ShardKey and BlobListKey are where the data of versions lies, by its sha256.
func ShardKey(name, sha string) string    { return name + "/data/" + sha + ".arrow" }
func BlobListKey(name, sha string) string { return name + "/data/" + sha + ".blobs" }

// ManifestKey and CardKey are where a version says what it is.
func ManifestKey(name, digest string) string { return name + "/versions/" + digest + "/manifest.json" }
func CardKey(name, digest string) string     { return name + "/versions/" + digest + "/README.md" }

// UnitsPrefix is where the finished units of a piece of work lie until they are a version.
func UnitsPrefix(name, key string) string { return name + "/units/" + key }

// FilesPrefix begins the files that a piece of work left beside its version, and FilesIndex
// is the list of them.
func FilesPrefix(name, key string) string { return name + "/files/" + key + "/" }
func FilesIndex(name, key string) string  { return name + "/files/" + key + ".json" }

// EmbeddingsPrefix begins the vectors that a model server answered for texts of a dataset.
func EmbeddingsPrefix(name string) string { return name + "/embeddings/" }

func keyKey(name, key string) string { return name + "/keys/" + key }
func latestKey(name string) string   { return name + "/refs/latest" }
