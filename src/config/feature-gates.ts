/** Feature gates of Kubernetes 1.37: those that change this proxy, and the other names, which are accepted without effect. */
import type { Config } from "./config.ts";

interface Gate {
  readonly stage: "alpha" | "beta" | "deprecated";
  readonly on: boolean;
}

/** Gates with an effect here. KubeProxyNFTablesCompact is our own: the nftables layout without anonymous maps. */
const ours = {
  KubeProxyIPVS: { stage: "deprecated", on: true },
  KubeProxyNFTablesLocalhostNodePorts: { stage: "alpha", on: false },
  KubeProxyNFTablesCompact: { stage: "alpha", on: false },
  WatchListClient: { stage: "beta", on: true },
  LoggingAlphaOptions: { stage: "alpha", on: false },
  LoggingBetaOptions: { stage: "beta", on: true },
  ComponentFlagz: { stage: "beta", on: true },
  ComponentStatusz: { stage: "beta", on: true },
} as const satisfies Readonly<Record<string, Gate>>;

export type GateName = keyof typeof ours;

/** Whether a gate is on: as given, else by AllAlpha and AllBeta, else its default. */
export function gateOn(config: Pick<Config, "featureGates">, name: GateName): boolean {
  const given = config.featureGates;
  const gate: Gate = ours[name];
  const ofStage = { alpha: given["AllAlpha"], beta: given["AllBeta"], deprecated: undefined }[gate.stage];
  return given[name] ?? ofStage ?? gate.on;
}

/** Why a gate cannot be set so, or undefined when it can. */
export function gateFault(name: string, on: boolean): string | undefined {
  if (on && lockedOff.has(name)) return "is locked to false in Kubernetes 1.37";
  if (!on && lockedOn.has(name)) return "is locked to true in Kubernetes 1.37";
  const known = Object.hasOwn(ours, name) || others.has(name) || lockedOff.has(name) || lockedOn.has(name);
  return known ? undefined : `is no feature gate of Kubernetes 1.37; kube-proxy's are ${Object.keys(ours).join(", ")}`;
}

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

const lockedOff = words(
  "AllowOverwriteTerminationGracePeriodSeconds DeclarativeValidationTakeover GitRepoVolumeDriver SeparateCacheWatchRPC",
);

const lockedOn = words(`
  AggregatedDiscoveryRemoveBetaType CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets
  CustomResourceFieldSelectors DRAAdminAccess DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus
  DeclarativeValidation DisableAllocatorDualWrite DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion
  DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner HPAConfigurableTolerance ImageMaximumGCAge
  ImageVolume InPlacePodVerticalScaling InPlacePodVerticalScalingInitContainers JobManagedBy KubeletCgroupDriverFromCRI
  KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
  MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
  NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap PLEGOnDemandRelist
  PodObservedGenerationTracking PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType
  RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation
  SELinuxChangePolicy SELinuxMountReadWriteOncePod SeparateTaintEvictionController ServiceAccountTokenJTI
  ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
  SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport VolumeAttributesClass
  WatchCacheInitializationPostStartHook WinDSR WinOverlay`);

const others = words(`
  AllAlpha AllBeta APIResponseCompression APIServerIdentity APIServingWithRoutine AllowDNSOnlyNodeCSR
  AllowInsecureKubeletCertificateSigningRequests AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs
  AllowUnsafeMalformedObjectDeletion AtomicFIFO AtomicWriteVolumeUserFields AuthorizePodWebsocketUpgradeCreatePermission
  CBORServingAndStorage CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
  CRIListStreaming CSIVolumeHealth ChangeContainerStatusOnKubeletRestart ClearingNominatedNodeNameAfterBinding
  ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
  ClusterTrustBundle ClusterTrustBundleProjection CompositePodGroup ConcurrentWatchObjectDecode
  ConsistentListFromCacheSkipTimeoutFallback ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules
  ContainerStopSignals ContextualLogging ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection
  CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod DRAConsumableCapacity DRADeviceBindingConditions
  DRADeviceTaintRules DRADeviceTaints DRAFractionalCapacityRange DRAListTypeAttributes DRANodeAllocatableResources
  DRAPartitionableDevices DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus DRASchedulerFilterTimeout
  DRAWorkloadResourceClaims DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency
  EnvFiles EtcdRangeStream EventedPLEG ExcludeAdmissionWebhookVirtualResources ExtendWebSocketsToKubelet GenericWorkload
  GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority H2CContainerProbe HPAGeneration HPAOptimizedSelectorStore
  HPAScaleToZero HostnameOverride HugepageAwareEviction ImageVolumeWithDigest InOrderInformers
  InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingExclusiveCPUs
  InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScalingMemoryBackedVolumes
  InPlacePodVerticalScalingSchedulerPreemption InformerResourceVersion KMSv1 KubeletCrashLoopBackOffMax
  KubeletEnsureSecretPulledImages KubeletInUserNamespace KubeletPodResourcesListUseActivePods
  KubeletRegistrationGetOnExistsOnly KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
  ListFromCacheSnapshot LocalStorageCapacityIsolationFSQuotaMonitoring ManifestBasedAdmissionControlConfig
  MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS
  MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
  MutatingAdmissionPolicy NFTablesNetlink NativeHistograms NodeControllerLeaseCircuitBreaker NodeLifecycleConditions
  NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PersistentVolumeClaimUnusedSinceTime
  PodAndContainerStatsFromCRI PodCertificateRequest PodDeletionCost PodGroupPreemptionPolicy PodLevelResourceManagers
  PodLevelResources PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass PodLogsQuerySplitStreams
  PodReadyToStartContainersCondition PodTopologyLabelsAdmission PodsAPI PortForwardWebsockets QOSReserved
  ReduceDefaultCrashLoopBackOffDecay ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RemoteRequestHeaderUID
  ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits RotateKubeletServerCertificate
  RuntimeClassInImageCriApi SELinuxMount SchedulerAsyncAPICalls SchedulerAsyncPreemption SchedulerPopFromBackoffQ
  ServiceAccountNodeAudienceRestriction ServiceCIDRStatusFieldWiping ShardedListAndWatch SizeBasedListCostEstimate
  StaleControllerConsistencyDaemonSet StaleControllerConsistencyHPA StaleControllerConsistencyJob
  StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet StatefulSetRecreateStrategy
  StatefulSetSemanticRevisionComparison StorageCapacityScoring StorageNamespaceIndex StorageVersionAPI
  StorageVersionHash StorageVersionMigrator StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
  StructuredAuthenticationConfigurationJWKSMetrics TaintTolerationComparisonOperators
  TokenRequestServiceAccountUIDValidation TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
  TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
  UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO UserNamespacesHostNetworkSupport VolumeLimitScaling
  WatchList WatchListCompression WebhookRoundTripLoadBalancing WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown
  WindowsHostNetwork WorkloadWithJob`);
