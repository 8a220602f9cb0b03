package argo

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// banned are fields that Argo takes and these files do not use, and why. The numbers are
// issues of argoproj/argo-workflows.
var banned = map[string]string{
	"schedule":                       "removed in 4.0: schedules",
	"mutex":                          "removed in 4.0: mutexes",
	"semaphore":                      "removed in 4.0: semaphores",
	"podPriority":                    "removed in 4.0: podPriorityClassName",
	"maxDuration":                    "it becomes the deadline of every retry (13044)",
	"memoize":                        "outputs may point at deleted data (11191); a stage that finds its version committed ends at once",
	"artifactGC":                     "its finalizer keeps workflows from being deleted (10840)",
	"containerSet":                   "hangs when its Pod is deleted (13951)",
	"plugin":                         "runs in the agent Pod, with rights of its own",
	"http":                           "runs in the agent Pod, with rights of its own",
	"hooks":                          "leave nodes running (14058), count as parallelism (14392)",
	"script":                         "code belongs into a stage",
	"sidecars":                       "keep Pods alive (10612)",
	"daemon":                         "keeps Pods alive (10612)",
	"data":                           "lists of files belong into a stage",
	"steps":                          "one way to wire: dag",
	"templateDefaults":               "land on DAGs too (13990), and come from the workflow that runs, not from the template",
	"inline":                         "a template has a name",
	"clusterScope":                   "one namespace",
	"timeout":                        "is not validated: activeDeadlineSeconds",
	"continueOn":                     "says what depends says",
	"dependencies":                   "says what depends says",
	"withSequence":                   "a plan says which shards there are",
	"volumeClaimTemplates":           "stages keep nothing on disks",
	"namespace":                      "the release's",
	"nodeName":                       "the scheduler's",
	"hostNetwork":                    "a stage is an ordinary Pod",
	"hostPath":                       "a stage is an ordinary Pod",
	"workflows.argoproj.io/progress": "pins the progress at its first value (13057): the stage writes ARGO_PROGRESS_FILE",
}

// bannedAt are fields that are only wrong in some places.
var bannedAt = []struct {
	path *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`spec\.templates\[[^\]]*\]\.priority$`), "removed in 4.0: priorityClassName"},
	{regexp.MustCompile(`spec\.templates\[[^\]]*\]\.resource$`), "a stage has no rights in Kubernetes"},
	{regexp.MustCompile(`spec\.templates\[[^\]]*\]\.suspend$`), "nobody is there to resume it"},
	{regexp.MustCompile(`spec\.retryStrategy$`), "lands on DAGs too (13990)"},
	{regexp.MustCompile(`tasks\[[^\]]*\]\.onExit$`), "a hook of a task (14392)"},
	{regexp.MustCompile(`valueFrom\.supplied$`), "nobody is there to supply it"},
}

// bannedNames are names in tags that would put much into the status of a run.
var bannedNames = []string{"workflow.failures", "outputs.result", "workflow.parameters", "workflow.parameters.json", "inputs.parameters"}

func forbidden(s *set, bad report) {
	for _, name := range keys(s.docs) {
		walk(name, s.docs[name], func(where, key string, v any) {
			if why, ok := banned[key]; ok {
				bad("%s: %s", where, why)
			}
			for _, b := range bannedAt {
				if b.path.MatchString(where) {
					bad("%s: %s", where, b.why)
				}
			}
			if text, ok := v.(string); ok {
				for _, m := range tag.FindAllStringSubmatch(text, -1) {
					for _, n := range bannedNames {
						if in := strings.TrimSpace(m[1]); in == n || n == "outputs.result" && strings.HasSuffix(in, n) {
							bad("%s: {{%s}} may be large, and the status of a run is small", where, n)
						}
					}
				}
			}
		})
	}
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// names fit where Argo puts them: a run is named after its pipeline and five letters, and
// that is the value of a label; a cron's run carries its time.
func names(s *set, bad report) {
	check := func(what, name string, most int) {
		if !label.MatchString(name) || len(name) > most {
			bad("%s %q: must be at most %d of a-z, 0-9 and -", what, name, most)
		}
	}
	for name, w := range s.templates {
		check("WorkflowTemplate", name, 63-len("-x7k2p"))
		for i := range w.Spec.Templates {
			check(name+": template", w.Spec.Templates[i].Name, 63)
			if d := w.Spec.Templates[i].DAG; d != nil {
				for _, k := range d.Tasks {
					check(name+": task", k.Name, 63)
				}
			}
		}
	}
	for name := range s.crons {
		check("CronWorkflow", name, 52)
	}
}

// objects are those that the chart makes in the release's namespace.
func objects(s *set, bad report) {
	may := map[string][]string{
		"serviceAccountName": {"orchard-stage", "orchard-executor"},
		"configMapRef":       {"orchard-settings"},
		"configMapKeyRef":    {"orchard-parameters", "orchard-settings"},
		"configMap":          {"orchard-settings"},
		"secretRef":          {"orchard-credentials"},
		"secretKeyRef":       {"orchard-credentials"},
		"secret":             {"orchard-credentials"},
	}
	for _, name := range keys(s.docs) {
		walk(name, s.docs[name], func(where, key string, v any) {
			allowed, ok := may[key]
			if !ok {
				return
			}
			got := v
			if m, ok := v.(map[string]any); ok {
				if got = m["name"]; got == nil {
					got = m["secretName"]
				}
			}
			if text, _ := got.(string); !slices.Contains(allowed, text) {
				bad("%s: %v: the chart makes %v", where, got, allowed)
			}
		})
	}
}

// outputs of a step have a default: a step that did not run has none, and whoever reads
// one would wait for ever or fail.
func outputs(s *set, bad report) {
	s.each(func(at string, _ *wfv1.WorkflowTemplate, t *wfv1.Template) {
		for _, p := range t.Outputs.Parameters {
			switch {
			case p.ValueFrom == nil:
				bad("%s: output %q has no valueFrom", at, p.Name)
			case t.DAG == nil && p.ValueFrom.Default == nil:
				bad("%s: output %q has no default", at, p.Name)
			case t.DAG == nil && !strings.HasPrefix(p.ValueFrom.Path, "/tmp/orchard-outputs/"):
				bad("%s: output %q: %s is not in the folder of the stage's outputs", at, p.Name, p.ValueFrom.Path)
			}
		}
		if t.Container == nil || len(t.Outputs.Parameters) == 0 {
			return
		}
		if !slices.ContainsFunc(t.Container.Env, func(e coreEnv) bool { return e.Name == "ORCHARD_OUTPUT_DIR" && e.Value == "/tmp/orchard-outputs" }) {
			bad("%s: has outputs, and ORCHARD_OUTPUT_DIR is not /tmp/orchard-outputs", at)
		}
	})
}

// fanOut: a task for each item of a list that an earlier one wrote, of which there may be none.
func fanOut(s *set, bad report) {
	s.each(func(at string, w *wfv1.WorkflowTemplate, t *wfv1.Template) {
		if t.DAG == nil {
			return
		}
		tasks := tasksOf(t)
		for _, k := range t.DAG.Tasks {
			where := at + "/" + k.Name
			for up, result := range waits(k) {
				if tasks[up] != nil && fans(*tasks[up]) && slices.Contains(result, "Succeeded") && !slices.Contains(result, "Skipped") {
					bad("%s: waits for %s.Succeeded; without items it is Skipped, and that is no failure", where, up)
				}
			}
			if !fans(k) {
				continue
			}
			if t.Parallelism == nil || *t.Parallelism < 1 {
				bad("%s: runs once an item, and template %s has no parallelism", where, t.Name)
			}
			if !slices.ContainsFunc(said(generic(k.Arguments), bad, where), func(n string) bool { return n == "item" || strings.HasPrefix(n, "item.") }) {
				bad("%s: does the same for every item", where)
			}
			if k.WithParam == "" {
				continue
			}
			m := producer.FindStringSubmatch(strings.TrimSpace(k.WithParam))
			if m == nil || tasks[m[1]] == nil {
				bad("%s: withParam %s is not the output of a task", where, k.WithParam)
				continue
			}
			_, callee := s.callee(w, *tasks[m[1]])
			var list []json.RawMessage
			if callee == nil {
				continue // the check of arguments says so
			}
			i := slices.IndexFunc(callee.Outputs.Parameters, func(p wfv1.Parameter) bool { return p.Name == m[2] })
			if i < 0 {
				bad("%s: withParam %s: there is no such output", where, k.WithParam)
			} else if from := callee.Outputs.Parameters[i].ValueFrom; from != nil && from.Default != nil && json.Unmarshal([]byte(from.Default.String()), &list) != nil {
				bad("%s: withParam %s: the output's default, %s, is no list", where, k.WithParam, from.Default)
			}
		}
	})
}

var (
	producer = regexp.MustCompile(`^\{\{tasks\.([A-Za-z0-9-]+)\.outputs\.parameters\.([A-Za-z0-9_-]+)\}\}$`)
	result   = regexp.MustCompile(`([A-Za-z0-9][A-Za-z0-9-]*)(?:\.([A-Z][A-Za-z]+))?`)
)

// waits is the results that depends asks of each task.
func waits(k wfv1.DAGTask) map[string][]string {
	all := map[string][]string{}
	for _, m := range result.FindAllStringSubmatch(k.Depends, -1) {
		all[m[1]] = append(all[m[1]], m[2])
	}
	return all
}

// retries are on leaves only, all by the same expression, with numbers that are numbers.
func retries(s *set, bad report) {
	s.each(func(at string, _ *wfv1.WorkflowTemplate, t *wfv1.Template) {
		switch {
		case t.DAG != nil && t.RetryStrategy != nil:
			bad("%s: a retry of a DAG runs what is finished again (13990)", at)
		case t.DAG == nil && t.RetryStrategy == nil:
			bad("%s: a lost Pod is not tried again", at)
		}
	})
	calls, _ := s.calls()
	for _, c := range calls {
		r := c.leaf.RetryStrategy
		if r == nil {
			continue
		}
		if want := s.expression(); squeeze(r.Expression) != squeeze(want) {
			bad("%s: retryStrategy.expression is not the one of the other leaves", c.at)
		}
		if r.RetryPolicy != "" {
			bad("%s: retryPolicy must hold beside the expression, which alone decides", c.at)
		}
		if n := number(r.Limit); n < 1 || n > 20 {
			bad("%s: retryStrategy.limit %v is not 1 to 20", c.at, r.Limit)
		}
		if r.Backoff == nil {
			bad("%s: retryStrategy has no backoff", c.at)
			continue
		}
		for field, text := range map[string]string{"duration": r.Backoff.Duration, "cap": r.Backoff.Cap} {
			if d, err := time.ParseDuration(text); err != nil || d <= 0 {
				bad("%s: backoff.%s: %q is no time", c.at, field, text)
			}
		}
		if n := number(r.Backoff.Factor); n < 1 {
			bad("%s: backoff.factor %v is not a number above 0", c.at, r.Backoff.Factor)
		}
	}
}

// expression is the one by which steps are tried again.
func (s *set) expression() string {
	for _, name := range keys(s.templates) {
		for i := range s.templates[name].Spec.Templates {
			if r := s.templates[name].Spec.Templates[i].RetryStrategy; r != nil {
				return r.Expression
			}
		}
	}
	return ""
}

func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

func number(v *intstr.IntOrString) int {
	if v == nil {
		return -1
	}
	var n int
	if json.Unmarshal([]byte(v.String()), &n) != nil {
		return -1
	}
	return n
}
