package pipeline

import (
	"encoding/json"
	"strings"
)

// Ignored is a field that a cluster needs and a single machine does not.
type Ignored = json.RawMessage

// Workflow is a WorkflowTemplate: a library of templates, or a pipeline with an entrypoint.
type Workflow struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata names a workflow; the description annotation is what `orchard run --help` shows.
type Metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// Spec is the part of a WorkflowSpec that pipelines use.
type Spec struct {
	Entrypoint            string     `json:"entrypoint"`
	OnExit                string     `json:"onExit"`
	Arguments             Arguments  `json:"arguments"`
	Templates             []Template `json:"templates"`
	Parallelism           int        `json:"parallelism"`
	ActiveDeadlineSeconds IntString  `json:"activeDeadlineSeconds"`

	ArchiveLogs                  Ignored `json:"archiveLogs"`
	ArtifactRepositoryRef        Ignored `json:"artifactRepositoryRef"`
	AutomountServiceAccountToken Ignored `json:"automountServiceAccountToken"`
	Executor                     Ignored `json:"executor"`
	Metrics                      Ignored `json:"metrics"`
	PodGC                        Ignored `json:"podGC"`
	PodMetadata                  Ignored `json:"podMetadata"`
	PodPriorityClassName         Ignored `json:"podPriorityClassName"`
	SecurityContext              Ignored `json:"securityContext"`
	ServiceAccountName           Ignored `json:"serviceAccountName"`
	Tolerations                  Ignored `json:"tolerations"`
	TTLStrategy                  Ignored `json:"ttlStrategy"`
	VolumeClaimTemplates         Ignored `json:"volumeClaimTemplates"`
	Volumes                      Ignored `json:"volumes"`
	WorkflowMetadata             Ignored `json:"workflowMetadata"`
}

// Arguments are the values given to a template or workflow.
type Arguments struct {
	Parameters []Parameter `json:"parameters"`
	Artifacts  Ignored     `json:"artifacts"`
}

// Parameter is a named string. A nil Value with no Default must be supplied.
type Parameter struct {
	Name        string     `json:"name"`
	Value       *Scalar    `json:"value"`
	Default     *Scalar    `json:"default"`
	Description string     `json:"description"`
	Enum        []Scalar   `json:"enum"`
	ValueFrom   *ValueFrom `json:"valueFrom"`
}

// ValueFrom is where an output parameter comes from: a file the step wrote, or
// another template's output.
type ValueFrom struct {
	Path       string  `json:"path"`
	Parameter  string  `json:"parameter"`
	Expression string  `json:"expression"`
	Default    *Scalar `json:"default"`
	// ConfigMapKeyRef is a cluster's own value of a pipeline's parameter; a single
	// machine has none, so it is empty here unless given.
	ConfigMapKeyRef Ignored `json:"configMapKeyRef"`
}

// Template is a container step or a DAG of tasks.
type Template struct {
	Name                  string         `json:"name"`
	Inputs                Arguments      `json:"inputs"`
	Outputs               Arguments      `json:"outputs"`
	Container             *Container     `json:"container"`
	DAG                   *DAG           `json:"dag"`
	RetryStrategy         *RetryStrategy `json:"retryStrategy"`
	ActiveDeadlineSeconds IntString      `json:"activeDeadlineSeconds"`
	Parallelism           int            `json:"parallelism"`

	Affinity                     Ignored `json:"affinity"`
	AutomountServiceAccountToken Ignored `json:"automountServiceAccountToken"`
	Executor                     Ignored `json:"executor"`
	Metadata                     Ignored `json:"metadata"`
	Metrics                      Ignored `json:"metrics"`
	NodeSelector                 Ignored `json:"nodeSelector"`
	PodSpecPatch                 Ignored `json:"podSpecPatch"`
	PriorityClassName            Ignored `json:"priorityClassName"`
	SecurityContext              Ignored `json:"securityContext"`
	ServiceAccountName           Ignored `json:"serviceAccountName"`
	Synchronization              Ignored `json:"synchronization"`
	Tolerations                  Ignored `json:"tolerations"`
	Volumes                      Ignored `json:"volumes"`
}

// Container is a step's program; only its arguments and environment matter here.
type Container struct {
	Command []string `json:"command"`
	Args    []string `json:"args"`
	Env     []EnvVar `json:"env"`

	EnvFrom         Ignored `json:"envFrom"`
	Image           Ignored `json:"image"`
	ImagePullPolicy Ignored `json:"imagePullPolicy"`
	Name            Ignored `json:"name"`
	Resources       Ignored `json:"resources"`
	SecurityContext Ignored `json:"securityContext"`
	VolumeMounts    Ignored `json:"volumeMounts"`
	WorkingDir      Ignored `json:"workingDir"`
}

// EnvVar is set for the step, unless it comes from a Secret or ConfigMap, which a
// single machine replaces with its own environment.
type EnvVar struct {
	Name      string  `json:"name"`
	Value     string  `json:"value"`
	ValueFrom Ignored `json:"valueFrom"`
}

// DAG is tasks and what they wait for.
type DAG struct {
	Tasks    []Task `json:"tasks"`
	FailFast *bool  `json:"failFast"` // nil is true
	Target   string `json:"target"`   // "" is all tasks
}

// Task calls a template.
type Task struct {
	Name         string       `json:"name"`
	Template     string       `json:"template"`
	TemplateRef  *TemplateRef `json:"templateRef"`
	Arguments    Arguments    `json:"arguments"`
	Depends      string       `json:"depends"`
	Dependencies []string     `json:"dependencies"`
	When         string       `json:"when"`
	WithItems    []Scalar     `json:"withItems"`
	WithParam    string       `json:"withParam"`
}

// TemplateRef names a template of another WorkflowTemplate.
type TemplateRef struct {
	Name     string `json:"name"`
	Template string `json:"template"`
}

// RetryStrategy says when a step that did not succeed runs again: Limit more times at
// most, and only while Expression is true.
type RetryStrategy struct {
	Limit       IntString `json:"limit"`
	Expression  string    `json:"expression"`
	RetryPolicy string    `json:"retryPolicy"`
	Backoff     *Backoff  `json:"backoff"`
	Affinity    Ignored   `json:"affinity"`
}

// Backoff is the pause before a retry: Duration * Factor^n, at most Cap.
type Backoff struct {
	Duration string    `json:"duration"`
	Factor   IntString `json:"factor"`
	Cap      string    `json:"cap"`
}

// IntString is an integer that YAML may give as a number or as text; "" when absent.
type IntString string

// UnmarshalJSON takes 3 and "3".
func (s *IntString) UnmarshalJSON(b []byte) error {
	var v Scalar
	if err := v.UnmarshalJSON(b); err != nil {
		return err
	}
	*s = IntString(v)
	return nil
}

// Scalar is any YAML value as text: strings as they are, everything else as JSON.
type Scalar string

// UnmarshalJSON keeps strings and turns the rest into their JSON text.
func (s *Scalar) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*s = Scalar(text)
		return nil
	}
	*s = Scalar(strings.TrimSpace(string(b)))
	return nil
}
