{{- define "orchard.name" -}}
{{- .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "orchard.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "orchard.controller" -}}
{{ include "orchard.fullname" . }}-controller
{{- end }}

{{- define "orchard.egress" -}}
{{ include "orchard.fullname" . }}-egress
{{- end }}

{{- define "orchard.secret" -}}
{{ .Values.keys.existingSecret | default (printf "%s-keys" (include "orchard.fullname" .)) }}
{{- end }}

{{/* What selects: it must never change between versions of the chart. Takes (list root component). */}}
{{- define "orchard.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "orchard.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "orchard.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "orchard.selector" . }}
app.kubernetes.io/part-of: orchard
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- end }}

{{/* Takes (list root image). */}}
{{- define "orchard.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "orchard.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "orchard.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The controller's settings, which its check at `helm test` shares. */}}
{{- define "orchard.env" -}}
- name: ORCHARD_RUNTIME
  value: kubernetes
- name: SANDBOX_NAMESPACE
  value: {{ .Values.sandbox.namespace | quote }}
- name: ORCHARD_AGENT_IMAGE
  value: {{ include "orchard.image" (list . .Values.agentImage) | quote }}
- name: ORCHARD_SIGNING_KEY_FILE
  value: /etc/orchard/keys/signing-key
- name: API_KEYS_FILE
  value: /etc/orchard/keys/api-keys
- name: DEFAULT_CPU
  value: {{ .Values.sandbox.defaultCPU | quote }}
- name: DEFAULT_MEMORY
  value: {{ .Values.sandbox.defaultMemory | quote }}
- name: LOG_LEVEL
  value: {{ .Values.logLevel | quote }}
- name: DRAIN_DELAY_SECONDS
  value: {{ .Values.drainDelaySeconds | quote }}
- name: DRAIN_SECONDS
  value: {{ .Values.drainSeconds | quote }}
- name: CLOSED_NETWORKS
  value: {{ join "," .Values.network.closedNetworks | quote }}
- name: ALLOW_EGRESS
  value: {{ join "," .Values.network.allowEgress | quote }}
- name: SANDBOX_DNS_PODS
  value: {{ .Values.network.dns.pods | quote }}
- name: SANDBOX_DNS_ADDRESSES
  value: {{ join "," .Values.network.dns.addresses | quote }}
- name: ORCHARD_NETWORK_CANARY
  value: {{ .Values.network.canary | quote }}
{{- if .Values.egress.enabled }}
- name: ORCHARD_EGRESS_PROXY
  value: {{ include "orchard.egress" . }}.{{ .Release.Namespace }}.svc:3128
- name: ORCHARD_EGRESS_PROXY_PODS
  value: {{ .Release.Namespace }}/{{ include "orchard.selector" (list . "egress") | replace ": " "=" | replace "\n" "," }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "orchard.keysVolume" -}}
name: keys
secret:
  secretName: {{ include "orchard.secret" . }}
  defaultMode: 0440
{{- end }}

{{/* What a Pod takes of where it may run. */}}
{{- define "orchard.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Annotations of a hook of `helm test`: gone afterwards, but for what failed, which can still be read. */}}
{{- define "orchard.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
{{- end }}

{{/* "yes" when the release has an object store, so that stages can run: as Jobs, or as steps of Workflows. */}}
{{- define "orchard.stages" -}}
{{- if .Values.s3.bucket }}yes{{ end }}
{{- end }}

{{/* "yes" when the cluster knows WorkflowTemplates. The group alone would not do: other programs of the Argo project have kinds in it. */}}
{{- define "orchard.argo" -}}
{{- if .Capabilities.APIVersions.Has "argoproj.io/v1alpha1/WorkflowTemplate" }}yes{{ end }}
{{- end }}

{{/* "yes" when the pipelines are installed. */}}
{{- define "orchard.workflows" -}}
{{- $mode := toString .Values.workflows.enabled }}
{{- if or (eq $mode "true") (and (eq $mode "auto") (include "orchard.stages" .) (include "orchard.argo" .)) }}yes{{ end }}
{{- end }}

{{/* Where all datasets of the release are. */}}
{{- define "orchard.out" -}}
s3://{{ .Values.s3.bucket }}{{ with .Values.s3.prefix }}/{{ . }}{{ end }}
{{- end }}

{{- define "orchard.scripted" -}}
{{ include "orchard.fullname" . }}-scripted
{{- end }}
