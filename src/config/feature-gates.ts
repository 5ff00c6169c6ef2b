/** Feature gates of Kubernetes 1.37: stage and default of each; a few change this proxy, the others are accepted without effect. */
import type { Config } from "./config.ts";

/** Gates with an effect here. KubeProxyNFTablesCompact is our own: the nftables layout without anonymous maps. */
export type GateName =
  | "KubeProxyIPVS"
  | "KubeProxyNFTablesLocalhostNodePorts"
  | "KubeProxyNFTablesCompact"
  | "WatchListClient"
  | "LoggingAlphaOptions"
  | "LoggingBetaOptions"
  | "ComponentFlagz"
  | "ComponentStatusz";

/** As the metric kubernetes_feature_enabled names it; empty: generally available. */
export type GateStage = "ALPHA" | "BETA" | "DEPRECATED" | "";

interface Gate {
  readonly stage: GateStage;
  readonly on: boolean;
  /** Cannot be changed. */
  readonly locked: boolean;
}

/** Whether a gate is on: as given, else by AllAlpha and AllBeta, else its default. */
export function gateOn(config: Pick<Config, "featureGates">, name: GateName): boolean {
  const gate = gates.get(name);
  return gate !== undefined && isOn(config, name, gate);
}

/** Every gate, sorted by name. */
export function allGates(
  config: Pick<Config, "featureGates">,
): readonly { readonly name: string; readonly stage: GateStage; readonly enabled: boolean }[] {
  return [...gates]
    .map(([name, gate]) => ({ name, stage: gate.stage, enabled: isOn(config, name, gate) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Why a gate cannot be set so, or undefined when it can. */
export function gateFault(name: string, on: boolean): string | undefined {
  const gate = gates.get(name);
  if (gate === undefined) {
    const known = [...gates.keys()].filter((gateName) => gateName.startsWith("KubeProxy"));
    return `is no feature gate of Kubernetes 1.37; kube-proxy's own are ${known.join(", ")}`;
  }
  return gate.locked && gate.on !== on ? `is locked to ${gate.on} in Kubernetes 1.37` : undefined;
}

// --- internal ---

function isOn({ featureGates }: Pick<Config, "featureGates">, name: string, gate: Gate): boolean {
  const ofStage: Readonly<Partial<Record<GateStage, boolean | undefined>>> = {
    ALPHA: featureGates["AllAlpha"],
    BETA: featureGates["AllBeta"],
  };
  const given = Object.hasOwn(featureGates, name) ? featureGates[name] : undefined;
  return given ?? (gate.locked || /^All(Alpha|Beta)$/.test(name) ? undefined : ofStage[gate.stage]) ?? gate.on;
}

/** Letters after the names of a group: A alpha, B beta, G generally available, D deprecated; + on, - off; ! locked. */
const groups: Readonly<Record<string, string>> = {
  "A-": `
  AllAlpha APIServingWithRoutine AllowUnsafeMalformedObjectDeletion AtomicWriteVolumeUserFields CBORServingAndStorage
  CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
  CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook CompositePodGroup
  ConsistentListFromCacheSkipTimeoutFallback ContainerStopSignals ControllerManagerReleaseLeaderElectionLockOnExit
  CrossNamespaceVolumeDataSource DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
  DRAWorkloadResourceClaims EventedPLEG H2CContainerProbe ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
  InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScalingMemoryBackedVolumes
  InPlacePodVerticalScalingSchedulerPreemption KubeProxyNFTablesCompact KubeProxyNFTablesLocalhostNodePorts
  KubeletInUserNamespace LoggingAlphaOptions MemoryQoS MutablePVNodeAffinity NodeLifecycleConditions
  PodGroupPreemptionPolicy PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay
  RuntimeClassInImageCriApi ShardedListAndWatch StatefulSetRecreateStrategy StorageVersionAPI
  TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
  UserNamespacesHostNetworkSupport WindowsCPUAndMemoryAffinity WorkloadWithJob`,
  "B-": `
  AllBeta CoordinatedLeaderElection GenericWorkload LocalStorageCapacityIsolationFSQuotaMonitoring
  PodAndContainerStatsFromCRI SchedulerAsyncAPICalls`,
  "B+": `
  APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
  AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
  ClearingNominatedNodeNameAfterBinding ComponentFlagz ComponentStatusz ConcurrentWatchObjectDecode
  ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging DRAConsumableCapacity
  DRADeviceBindingConditions DRAFractionalCapacityRange DRAPartitionableDevices
  DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout DeclarativeValidationBeta
  DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles EtcdRangeStream
  ExcludeAdmissionWebhookVirtualResources ExtendWebSocketsToKubelet GracefulNodeShutdown
  GracefulNodeShutdownBasedOnPodPriority HPAGeneration HPAOptimizedSelectorStore HPAScaleToZero HostnameOverride
  HugepageAwareEviction InOrderInformers InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
  KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletSeparateDiskGC
  KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions
  ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
  MaxUnavailableStatefulSet MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
  NFTablesNetlink NativeHistograms NodeControllerLeaseCircuitBreaker NominatedNodeNameForExpectation OpenAPIEnums
  OpportunisticBatching PersistentVolumeClaimUnusedSinceTime PodDeletionCost PodLevelResourceManagers PodLevelResources
  PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass PodReadyToStartContainersCondition
  PodTopologyLabelsAdmission PortForwardWebsockets ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile
  RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits
  RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction
  SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA
  StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
  StatefulSetSemanticRevisionComparison StorageCapacityScoring StorageVersionHash StrictIPCIDRValidation
  StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
  TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests
  UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO VolumeLimitScaling
  WatchList WatchListClient WatchListCompression WebhookRoundTripLoadBalancing WindowsGracefulNodeShutdown`,
  "G+": `
  AllowServiceExternalIPs ClusterTrustBundle ClusterTrustBundleProjection CustomCPUCFSQuotaPeriod DRADeviceTaintRules
  DRADeviceTaints InformerResourceVersion MutatingAdmissionPolicy PodCertificateRequest SELinuxMount
  StorageVersionMigrator`,
  "G+!": `
  CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets CustomResourceFieldSelectors
  DRAAdminAccess DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus DeclarativeValidation
  DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner
  HPAConfigurableTolerance ImageMaximumGCAge ImageVolume InPlacePodVerticalScaling
  InPlacePodVerticalScalingInitContainers JobManagedBy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI
  KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing MatchLabelKeysInPodAffinity
  MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode NodeDeclaredFeatures
  NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap PLEGOnDemandRelist PodObservedGenerationTracking
  PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure
  RecursiveReadOnlyMounts RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation SELinuxChangePolicy
  SELinuxMountReadWriteOncePod SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
  ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SupplementalGroupsPolicy SystemdWatchdog
  TopologyManagerPolicyOptions UserNamespacesSupport VolumeAttributesClass WatchCacheInitializationPostStartHook WinDSR
  WinOverlay`,
  "D+": "KubeProxyIPVS KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping StorageNamespaceIndex",
  "D-": `
  AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart KMSv1
  KubeletRegistrationGetOnExistsOnly WindowsHostNetwork`,
  "D+!": "AggregatedDiscoveryRemoveBetaType DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion",
  "D-!": `
  AllowOverwriteTerminationGracePeriodSeconds DeclarativeValidationTakeover GitRepoVolumeDriver SeparateCacheWatchRPC`,
};

const stages: Readonly<Record<string, GateStage>> = { A: "ALPHA", B: "BETA", D: "DEPRECATED", G: "" };

const gates: ReadonlyMap<string, Gate> = new Map(
  Object.entries(groups).flatMap(([key, names]) => {
    const gate = { stage: stages[key.slice(0, 1)] ?? "", on: key.includes("+"), locked: key.includes("!") };
    return names
      .trim()
      .split(/\s+/)
      .map((name) => [name, gate] as const);
  }),
);
