package imports

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"orchard/internal/exit"
)

// answersName is the file with the answers of WebVoyager's tasks, beside the tasks.
const answersName = "reference_answer.json"

// colAnswer is the column that a row gets from it.
const colAnswer = "reference_answer"

// Answers is the file of answers beside a file of tasks; "" when there is none.
func Answers(path string) string {
	p := filepath.Join(filepath.Dir(path), answersName)
	if info, err := os.Stat(p); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return p
}

// answers is what the file says, by site.
type answers map[string]struct {
	Notice  string `json:"notice"`
	Answers []struct {
		ID   json.Number `json:"id"`
		Type string      `json:"type"`
		Ans  string      `json:"ans"`
	} `json:"answers"`
}

func readAnswers(path string) (answers, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var a answers
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil {
		return nil, exit.Inputf("%s: %w", path, err)
	}
	return a, nil
}

// join adds its answer to a row of WebVoyager, whose id ends in the answer's number:
// "Allrecipes--0".
func (a answers) join(row *Row) {
	site, _ := row.Values["web_name"].(string)
	id, _ := row.Values["id"].(string)
	_, n, ok := strings.Cut(id, "--")
	if _, err := strconv.Atoi(n); !ok || err != nil || row.Values["ques"] == nil || row.Values[colAnswer] != nil {
		return
	}
	for _, e := range a[site].Answers {
		if e.ID.String() != n {
			continue
		}
		answer := map[string]any{"type": e.Type, "ans": e.Ans, "notice": a[site].Notice}
		row.Values[colAnswer] = answer
		row.Raw = strings.TrimSuffix(strings.TrimSpace(row.Raw), "}") + `,"` + colAnswer + `":` + jsonText(answer) + "}"
	}
}
