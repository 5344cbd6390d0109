{{- /* Where kube-scheduler finds an agent; the part before the path. */ -}}
{{- define "kse.agentUrl" -}}
{{- $values := .root.Values -}}
{{- $host := "127.0.0.1" -}}
{{- $port := .agent.port -}}
{{- if eq $values.shape "service" -}}
{{- if eq $values.service.reach "name" -}}
{{- $host = printf "%s.%s.svc" (include "kse.name" .root) .root.Release.Namespace -}}
{{- else if eq $values.service.reach "clusterIP" -}}
{{- $host = $values.service.clusterIP -}}
{{- else if eq $values.service.reach "nodePort" -}}
{{- $host = $values.service.nodeAddress -}}
{{- $port = .agent.nodePort -}}
{{- end -}}
{{- end -}}
{{- if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end -}}
{{ $values.tls.enabled | ternary "https" "http" }}://{{ $host }}:{{ $port }}
{{- end -}}

{{- define "kse.extender" -}}
{{- $values := .root.Values -}}
{{- $agent := .agent -}}
- urlPrefix: {{ include "kse.agentUrl" . }}{{ $values.pathPrefix }}
  {{- range $verb := list "filterVerb" "prioritizeVerb" "preemptVerb" }}
  {{- with get $agent $verb }}
  {{ $verb }}: {{ . }}
  {{- end }}
  {{- end }}
  {{- if $agent.bind }}
  bindVerb: {{ $agent.settings.BIND_PATH | default "bind" }}
  {{- end }}
  {{- if $agent.prioritizeVerb }}
  weight: {{ $agent.weight }}
  {{- end }}
  {{- if $values.tls.enabled }}
  enableHTTPS: true
  tlsConfig:
    {{- include "kse.extenderTls" .root | nindent 4 }}
  {{- end }}
  httpTimeout: {{ $agent.timeout }}
  nodeCacheCapable: {{ $values.nodeCache }}
  ignorable: {{ $agent.ignorable }}
  {{- with $agent.managedResources }}
  managedResources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "kse.extenderTls" -}}
{{- $tls := .Values.tls -}}
{{- $from := $tls.scheduler -}}
serverName: {{ include "kse.serverName" . }}
{{- if eq $from.use "data" }}
caData: {{ $from.caData | b64enc }}
{{- if $from.certData }}
certData: {{ $from.certData | b64enc }}
keyData: {{ $from.keyData | b64enc }}
{{- end }}
{{- else if include "kse.isScheduler" . }}
caFile: /etc/kube-sched-ext/scheduler-tls/ca.crt
{{- if $tls.clients.required }}
certFile: /etc/kube-sched-ext/scheduler-tls/tls.crt
keyFile: /etc/kube-sched-ext/scheduler-tls/tls.key
{{- end }}
{{- else }}
caFile: {{ $from.caFile }}
{{- if $tls.clients.required }}
certFile: {{ $from.certFile }}
keyFile: {{ $from.keyFile }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "kse.leaseName" -}}
{{- .Values.configuration.leaderElection.leaseName | default (ternary (include "kse.name" .) "kube-scheduler" (eq .Values.shape "scheduler")) -}}
{{- end -}}

{{- define "kse.leaseNamespace" -}}
{{- .Values.configuration.leaderElection.leaseNamespace | default (ternary .Release.Namespace "kube-system" (eq .Values.shape "scheduler")) -}}
{{- end -}}

{{- define "kse.profile" -}}
- schedulerName: {{ .name }}
  {{- if or .profile.disabledScores .profile.scoreWeights }}
  plugins:
    score:
      disabled:
        {{- range .profile.disabledScores }}
        - name: {{ . | quote }}
        {{- end }}
        {{- range $name, $_ := .profile.scoreWeights }}
        {{- if not (has "*" ($.profile.disabledScores | default list)) }}
        - name: {{ $name }}
        {{- end }}
        {{- end }}
      {{- with .profile.scoreWeights }}
      enabled:
        {{- range $name, $weight := . }}
        - name: {{ $name }}
          weight: {{ $weight }}
        {{- end }}
      {{- end }}
  {{- end }}
  {{- with .profile.pluginConfig }}
  pluginConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "kse.configuration" -}}
{{- $configuration := .Values.configuration -}}
{{- $isScheduler := include "kse.isScheduler" . -}}
{{- $elected := $configuration.leaderElection -}}
apiVersion: kubescheduler.config.k8s.io/{{ $configuration.apiVersion }}
kind: KubeSchedulerConfiguration
clientConnection:
  {{- with $configuration.kubeconfig | default (ternary "" "/etc/kubernetes/scheduler.conf" (ne $isScheduler "")) }}
  kubeconfig: {{ . }}
  {{- end }}
  qps: {{ $configuration.qps }}
  burst: {{ $configuration.burst }}
leaderElection:
  leaderElect: {{ $elected.enabled }}
  {{- if $elected.enabled }}
  resourceLock: leases
  resourceName: {{ include "kse.leaseName" . }}
  resourceNamespace: {{ include "kse.leaseNamespace" . }}
  leaseDuration: {{ $elected.leaseDuration }}
  renewDeadline: {{ $elected.renewDeadline }}
  retryPeriod: {{ $elected.retryPeriod }}
  {{- end }}
parallelism: {{ $configuration.parallelism }}
percentageOfNodesToScore: {{ $configuration.percentageOfNodesToScore }}
profiles:
  {{- range $configuration.profiles }}
  {{- $name := .schedulerName | default (ternary "my-scheduler" "default-scheduler" (ne $isScheduler "")) }}
  {{- include "kse.profile" (dict "profile" . "name" $name) | nindent 2 }}
  {{- end }}
extenders:
  {{- range include "kse.agents" . | fromJsonArray }}
  {{- include "kse.extender" (dict "root" $ "agent" .) | nindent 2 }}
  {{- end }}
  {{- with $configuration.extenders }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
