{{- define "kse.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "kse.agentContainer" -}}
{{- $values := .root.Values -}}
{{- $agent := .agent -}}
- name: {{ $agent.container }}
  image: {{ include "kse.agentImage" . }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  args: [serve, {{ $agent.name }}]
  env:
    {{- include "kse.agentEnvironment" . | trim | nindent 4 }}
  ports:
    - containerPort: {{ $agent.port }}
    - containerPort: {{ $agent.opsPort }}
  {{- range $probe, $path := dict "startupProbe" "livez" "livenessProbe" "livez" "readinessProbe" "readyz" }}
  {{ $probe }}:
    httpGet:
      path: /{{ $path }}
      port: {{ $agent.opsPort }}
      {{- if include "kse.isDaemonSet" $.root }}
      host: 127.0.0.1
      {{- end }}
    {{- if eq $probe "startupProbe" }}
    periodSeconds: 1
    failureThreshold: 60
    {{- else }}
    timeoutSeconds: 5
    {{- end }}
  {{- end }}
  resources:
    {{- toYaml $agent.resources | nindent 4 }}
  securityContext:
    {{- include "kse.containerSecurity" . | nindent 4 }}
  {{- if or $values.tls.enabled $agent.volumeMounts }}
  volumeMounts:
    {{- if $values.tls.enabled }}
    - name: tls
      mountPath: /etc/kube-sched-ext/tls
      readOnly: true
    {{- if $values.tls.clients.required }}
    - name: client-ca
      mountPath: /etc/kube-sched-ext/client-ca
      readOnly: true
    {{- end }}
    {{- end }}
    {{- with $agent.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "kse.schedulerContainer" -}}
{{- $scheduler := .Values.scheduler -}}
- name: {{ $scheduler.containerName }}
  image: {{ $scheduler.image }}:{{ $scheduler.tag | default (regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version) }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [kube-scheduler]
  args:
    - --config=/etc/kubernetes/my-scheduler/config.yaml
    - --v={{ $scheduler.verbosity }}
  ports:
    - containerPort: 10259
  {{- range $probe := list "startupProbe" "livenessProbe" }}
  {{ $probe }}:
    httpGet:
      path: /healthz
      port: 10259
      scheme: HTTPS
    {{- if eq $probe "startupProbe" }}
    periodSeconds: 1
    failureThreshold: 60
    {{- else }}
    timeoutSeconds: 5
    {{- end }}
  {{- end }}
  resources:
    {{- toYaml $scheduler.resources | nindent 4 }}
  securityContext:
    {{- include "kse.containerSecurity" . | nindent 4 }}
  volumeMounts:
    - name: configuration
      mountPath: /etc/kubernetes/my-scheduler
      readOnly: true
    {{- if and .Values.tls.enabled (eq .Values.tls.scheduler.use "files") }}
    - name: scheduler-tls
      mountPath: /etc/kube-sched-ext/scheduler-tls
      readOnly: true
    {{- end }}
{{- end -}}

{{- define "kse.volumes" -}}
{{- $tls := .Values.tls -}}
{{- if include "kse.isScheduler" . }}
- name: configuration
  {{- if eq (include "kse.configurationKind" .) "Secret" }}
  secret:
    secretName: {{ include "kse.name" . }}-config
  {{- else }}
  configMap:
    name: {{ include "kse.name" . }}-config
  {{- end }}
{{- end }}
{{- if $tls.enabled }}
- name: tls
  secret:
    secretName: {{ include "kse.serverSecret" . }}
    defaultMode: 0440
{{- if $tls.clients.required }}
- name: client-ca
  secret:
    secretName: {{ $tls.clients.caSecretName | default (include "kse.serverSecret" .) }}
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- if and (include "kse.isScheduler" .) (eq $tls.scheduler.use "files") }}
- name: scheduler-tls
  secret:
    secretName: {{ include "kse.schedulerSecret" . }}
    defaultMode: 0440
    {{- if not $tls.clients.required }}
    items: [{key: ca.crt, path: ca.crt}]
    {{- end }}
{{- end }}
{{- end }}
{{- range include "kse.agents" . | fromJsonArray }}
{{- with .volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "kse.pod" -}}
{{- $isScheduler := include "kse.isScheduler" . -}}
serviceAccountName: {{ include "kse.serviceAccount" . }}
automountServiceAccountToken: {{ or $isScheduler (include "kse.needsApi" .) | empty | not }}
{{- with .Values.podSchedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if include "kse.onHostNetwork" . }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
containers:
  {{- if $isScheduler }}
  {{- include "kse.schedulerContainer" . | nindent 2 }}
  {{- end }}
  {{- range include "kse.agents" . | fromJsonArray }}
  {{- include "kse.agentContainer" (dict "root" $ "agent" .) | nindent 2 }}
  {{- end }}
{{- with include "kse.volumes" . | trim }}
volumes:
  {{- . | nindent 2 }}
{{- end }}
{{- if .Values.nodeSelector }}
nodeSelector:
  {{- toYaml .Values.nodeSelector | nindent 2 }}
{{- else if include "kse.isDaemonSet" . }}
nodeSelector:
  node-role.kubernetes.io/control-plane: ""
{{- end }}
{{- if .Values.tolerations }}
tolerations:
  {{- toYaml .Values.tolerations | nindent 2 }}
{{- else if include "kse.isDaemonSet" . }}
tolerations:
  - key: node-role.kubernetes.io/control-plane
    operator: Exists
    effect: NoSchedule
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and .Values.topologySpread (not (include "kse.isDaemonSet" .)) }}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "kse.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}
