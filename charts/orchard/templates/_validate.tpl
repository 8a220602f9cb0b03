{{/* What the schema cannot see: values that do not go together. */}}
{{- define "orchard.validate" -}}
{{- if eq .Values.sandbox.namespace .Release.Namespace }}
{{- fail "sandbox.namespace must not be the namespace of the release: sandboxes would share it with the controllers' secrets" }}
{{- end }}
{{- $c := .Values.credentials }}
{{- if include "orchard.stages" . }}
{{- if $c.create }}
{{- if not (and $c.accessKeyId $c.secretAccessKey) }}
{{- fail "s3.bucket is set, and stages need the keys of the object store: set credentials.accessKeyId and credentials.secretAccessKey; or make the Secret orchard-credentials in the release's namespace (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, SANDBOX_API_KEY and, if the model server wants one, OPENAI_API_KEY) and set credentials.create=false" }}
{{- end }}
{{- if and .Values.keys.existingSecret (not $c.sandboxApiKey) }}
{{- fail "keys.existingSecret is set, so the chart knows no key of the sandbox service for the stages: set credentials.sandboxApiKey, or make the Secret orchard-credentials (with SANDBOX_API_KEY in it) and set credentials.create=false" }}
{{- end }}
{{- else if or $c.accessKeyId $c.secretAccessKey $c.sandboxApiKey $c.openaiApiKey $c.webhookUrl }}
{{- fail "credentials.create is false, so the Secret orchard-credentials is yours, and the other values of credentials would be lost: put them into it, or set credentials.create=true" }}
{{- end }}
{{- else }}
{{- if or .Values.s3.endpoint $c.accessKeyId $c.secretAccessKey }}
{{- fail "s3.endpoint or credentials are set, and s3.bucket is not: name the bucket for the datasets" }}
{{- end }}
{{- if .Values.scriptedModel.enabled }}
{{- fail "scriptedModel.enabled needs an object store, from which it reads the tasks that it plays: set s3.bucket" }}
{{- end }}
{{- end }}
{{- if eq (toString .Values.workflows.enabled) "true" }}
{{- if not (include "orchard.stages" .) }}
{{- fail "workflows.enabled is true, and there is no object store for the datasets: set s3.bucket, and s3.endpoint if it is not AWS (any S3 service will do); or set workflows.enabled=false for the sandbox service alone" }}
{{- end }}
{{- if not (include "orchard.argo" .) }}
{{- fail "workflows.enabled is true, and the cluster knows no WorkflowTemplates: install Argo Workflows first (v3.6 or newer), or set workflows.enabled=auto or false; helm template needs --api-versions argoproj.io/v1alpha1/WorkflowTemplate" }}
{{- end }}
{{- end }}
{{- if .Values.nightlyEval.enabled }}
{{- if not .Values.nightlyEval.tasks }}
{{- fail "nightlyEval.enabled is true, and nightlyEval.tasks names no task set, such as s3://bucket/tasks.jsonl" }}
{{- end }}
{{- if not (include "orchard.workflows" .) }}
{{- fail "nightlyEval.enabled is true, and the pipelines are not installed: they need Argo Workflows and s3.bucket, and workflows.enabled that is not false" }}
{{- end }}
{{- end }}
{{- $np := .Values.stages.networkPolicy }}
{{- if and $np.enabled $np.closed (not $np.allowed) }}
{{- fail "stages.networkPolicy.closed is true, and stages.networkPolicy.allowed names no network: stages must reach the object store and the model server, and Argo's container beside them the API server" }}
{{- end }}
{{- end }}
