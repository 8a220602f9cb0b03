package argo

import (
	"regexp"
	"slices"
	"strings"
	"time"

	wfv1 "github.com/argoproj/argo-workflows/v3/pkg/apis/workflow/v1alpha1"
	core "k8s.io/api/core/v1"
)

type coreEnv = core.EnvVar

// pipelines end by themselves, clean up after themselves, and say what they are.
func pipelines(s *set, bad report) {
	for _, name := range keys(s.templates) {
		w := s.templates[name]
		if w.Annotations["workflows.argoproj.io/description"] == "" {
			bad("%s: no annotation workflows.argoproj.io/description", name)
		}
		if w.Labels["app.kubernetes.io/part-of"] != "orchard" {
			bad("%s: label app.kubernetes.io/part-of is not orchard", name)
		}
		if w.Spec.Entrypoint == "" {
			for i := range w.Spec.Templates { // a library has only what it is called for
				if t := w.Spec.Templates[i]; t.IsPodType() && (t.ServiceAccountName == "" || t.SecurityContext == nil) {
					bad("%s/%s: its account and security are left to whoever calls it", name, t.Name)
				}
			}
			continue
		}
		spec := w.Spec
		if spec.OnExit == "" {
			bad("%s: no onExit: nobody sums up a run that failed", name)
		}
		if spec.ActiveDeadlineSeconds == nil || *spec.ActiveDeadlineSeconds <= 0 {
			bad("%s: no activeDeadlineSeconds", name)
		}
		if spec.Parallelism == nil || *spec.Parallelism < 1 {
			bad("%s: parallelism is not a number above 0", name)
		}
		if gc := spec.PodGC; gc == nil || gc.Strategy != wfv1.PodGCOnPodSuccess {
			bad("%s: podGC.strategy is not OnPodSuccess, which keeps failed Pods to look at", name)
		} else if d, err := time.ParseDuration(gc.DeleteDelayDuration); err != nil || d < time.Minute {
			bad("%s: podGC.deleteDelayDuration %q leaves the logs no time to be collected", name, gc.DeleteDelayDuration)
		}
		if ttl := spec.TTLStrategy; ttl == nil || ttl.SecondsAfterSuccess == nil || ttl.SecondsAfterFailure == nil ||
			*ttl.SecondsAfterSuccess <= 0 || *ttl.SecondsAfterFailure < *ttl.SecondsAfterSuccess {
			bad("%s: ttlStrategy does not say when a run is deleted, failed ones later", name)
		}
		if spec.ArchiveLogs != nil && *spec.ArchiveLogs {
			bad("%s: archiveLogs: Argo itself says not to rely on it", name)
		}
		if spec.Arguments.GetParameterByName("run-id") == nil {
			bad("%s: no parameter run-id: an earlier run cannot be gone on with", name)
		}
	}
	s.each(func(at string, _ *wfv1.WorkflowTemplate, t *wfv1.Template) {
		if t.Parallelism != nil && *t.Parallelism < 1 {
			bad("%s: parallelism is not a number above 0", at)
		}
	})
}

// crons start one run at a time, say in which time zone, and survive a controller's absence.
func crons(s *set, bad report) {
	for _, name := range keys(s.crons) {
		spec := s.crons[name].Spec
		if len(spec.Schedules) == 0 {
			bad("%s: no schedules", name)
		}
		if spec.Timezone == "" {
			bad("%s: no timezone: it would be that of the controller's machine", name)
		}
		if spec.ConcurrencyPolicy != wfv1.ForbidConcurrent {
			bad("%s: concurrencyPolicy is not Forbid; Replace kills healthy runs (12625)", name)
		}
		if spec.StartingDeadlineSeconds == nil || *spec.StartingDeadlineSeconds < 60 {
			bad("%s: startingDeadlineSeconds: a run that is due while the controller restarts is lost", name)
		}
		if spec.SuccessfulJobsHistoryLimit == nil || spec.FailedJobsHistoryLimit == nil {
			bad("%s: no limits of its history", name)
		}
		if spec.WorkflowSpec.WorkflowTemplateRef == nil || len(spec.WorkflowSpec.Templates) > 0 {
			bad("%s: must start a pipeline by workflowTemplateRef, and only that", name)
		}
	}
}

var metricName = regexp.MustCompile(`^orchard_[a-z0-9_]+$`)

// metrics of one name are the same metric everywhere, with few values of its labels.
func metrics(s *set, bad report) {
	seen := map[string]string{}
	each := func(at string, m *wfv1.Metrics) {
		if m == nil {
			return
		}
		for _, p := range m.Prometheus {
			where := at + ": metric " + p.Name
			if !metricName.MatchString(p.Name) {
				bad("%s: must begin with orchard_", where)
			}
			what := p.Help
			switch {
			case p.Counter != nil && strings.HasSuffix(p.Name, "_total"):
				what += " counter"
			case p.Counter != nil:
				bad("%s: a counter's name ends in _total", where)
			case p.Gauge != nil && !strings.HasSuffix(p.Name, "_total"):
				what += " gauge"
			case p.Histogram != nil && !strings.HasSuffix(p.Name, "_total"):
				what += " histogram"
			default:
				bad("%s: is no counter, gauge or histogram", where)
			}
			for _, l := range p.Labels {
				what += " " + l.Key
				spoken, _ := references(l.Value) // the check of tags has its error
				for _, n := range spoken {
					if slices.Contains([]string{"workflow.name", "workflow.uid", "pod.name", "workflow.creationTimestamp"}, n) {
						bad("%s: label %s has a value a run, which no Prometheus keeps for long", where, l.Key)
					}
				}
			}
			if len(p.Labels) > 4 {
				bad("%s: has %d labels", where, len(p.Labels))
			}
			if before, ok := seen[p.Name]; ok && before != what {
				bad("%s: is %q here and %q elsewhere", where, what, before)
			}
			seen[p.Name] = what
		}
	}
	for _, name := range keys(s.templates) {
		each(name, s.templates[name].Spec.Metrics)
	}
	s.each(func(at string, _ *wfv1.WorkflowTemplate, t *wfv1.Template) { each(at, t.Metrics) })
}

// artifacts are small things for people; data is in the store.
func artifacts(s *set, bad report) {
	s.each(func(at string, _ *wfv1.WorkflowTemplate, t *wfv1.Template) {
		if len(t.Inputs.Artifacts) > 0 {
			bad("%s: takes artifacts: a stage reads the store itself", at)
		}
		for _, a := range t.Outputs.Artifacts {
			switch {
			case a.Archive == nil || a.Archive.None == nil:
				bad("%s: artifact %s: archive is not none, so that the UI cannot show it", at, a.Name)
			case !a.Optional:
				bad("%s: artifact %s is not optional: a stage that failed has none, and its own words would be lost", at, a.Name)
			case !strings.HasPrefix(a.Path, "/tmp/orchard-outputs/"):
				bad("%s: artifact %s: %s is not in the folder of the stage's outputs", at, a.Name, a.Path)
			}
		}
	})
}
