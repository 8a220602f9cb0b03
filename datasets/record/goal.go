package record

// The kinds of goals.
const (
	GoalTerminal = "terminal" // a folder with an environment and a verifier of its own
	GoalWeb      = "web"      // something to do or to find on a website
	GoalTools    = "tools"    // something to do with the tools of given services
	GoalPrompt   = "prompt"   // a conversation to go on with, checked by an environment's server
)

// Goal is what a task asks for when no test of a repository decides it. Such a task has
// no test commands, and grading says of it that it is invalid rather than guess.
type Goal struct {
	Kind     string      `json:"kind"`      // one of the Goal constants
	StartURL string      `json:"start_url"` // of a web task
	Site     string      `json:"site"`      // of a web task, as its source calls it
	ParentID string      `json:"parent_id"` // the task that this one is a part of; "" for none
	Answer   string      `json:"answer"`    // the reference answer; "" for none. Never shown to a policy
	Judge    string      `json:"judge"`     // how it is judged, as the source says it: words, or JSON
	Criteria []Criterion `json:"criteria"`  // what must hold, when the source lists it
	Files    []File      `json:"files"`     // of a task that is a folder, by path
}

// Criterion is one thing that must hold.
type Criterion struct {
	ID     string   `json:"id"`
	Text   string   `json:"text"`
	Facts  []string `json:"facts"`  // parts of it that can be checked one by one
	Weight *float64 `json:"weight"` // nil when the source gives none
}

// File is one file of a task's folder.
type File struct {
	Path       string `json:"path"` // with /, below the folder
	Executable bool   `json:"executable"`
	Content    Text   `json:"content"`
}
