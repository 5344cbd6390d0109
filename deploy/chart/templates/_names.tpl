{{- define "kse.name" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "kse.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "kse.name" .) -}}
{{- end -}}

{{- /* Cluster-wide objects carry the namespace: two releases of one name get along. */ -}}
{{- define "kse.clusterName" -}}
{{ .Release.Namespace }}:{{ include "kse.name" . }}
{{- end -}}

{{- define "kse.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ include "kse.name" . }}
{{- end -}}

{{- define "kse.labels" -}}
{{ include "kse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "kse.metadata" -}}
name: {{ include "kse.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "kse.labels" . | nindent 2 }}
{{- end -}}

{{- define "kse.isScheduler" -}}
{{- if eq .Values.shape "scheduler" }}true{{ end -}}
{{- end -}}

{{- define "kse.onHostNetwork" -}}
{{- if and (eq .Values.shape "service") (or .Values.service.hostNetwork (eq .Values.service.reach "hostNetwork")) }}true{{ end -}}
{{- end -}}

{{- define "kse.isDaemonSet" -}}
{{- if and (eq .Values.shape "service") (eq .Values.service.reach "hostNetwork") }}true{{ end -}}
{{- end -}}

{{- /* The name in the agents' certificate. */ -}}
{{- define "kse.serverName" -}}
{{- .Values.tls.serverName | default (printf "%s.%s.svc" (include "kse.name" .) .Release.Namespace) -}}
{{- end -}}

{{- define "kse.serverSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "kse.name" .)) -}}
{{- end -}}

{{- define "kse.schedulerSecret" -}}
{{- if .Values.tls.scheduler.secretName -}}
{{ .Values.tls.scheduler.secretName }}
{{- else if .Values.tls.clients.required -}}
{{ include "kse.name" . }}-scheduler-tls
{{- else -}}
{{ include "kse.serverSecret" . }}
{{- end -}}
{{- end -}}

{{- /* A Secret where the configuration holds a key. */ -}}
{{- define "kse.configurationKind" -}}
{{- if and .Values.tls.enabled (eq .Values.tls.scheduler.use "data") .Values.tls.scheduler.keyData }}Secret{{ else }}ConfigMap{{ end -}}
{{- end -}}
