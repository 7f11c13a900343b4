; ModuleID = 'words.c'
source_filename = "words.c"
target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
target triple = "x86_64-unknown-linux-gnu"

; Function Attrs: nounwind uwtable
define dso_local i32 @hash_bytes(ptr noundef %data, i64 noundef %length) #0 {
entry:
  %data.addr = alloca ptr, align 8
  %length.addr = alloca i64, align 8
  %hash = alloca i32, align 4
  %i = alloca i64, align 8
  store ptr %data, ptr %data.addr, align 8, !tbaa !9
  store i64 %length, ptr %length.addr, align 8, !tbaa !12
  call void @llvm.lifetime.start.p0(ptr %hash) #3
  store i32 -2128831035, ptr %hash, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %i) #3
  store i64 0, ptr %i, align 8, !tbaa !12
  br label %for.cond

for.cond:                                         ; preds = %for.inc, %entry
  %0 = load i64, ptr %i, align 8, !tbaa !12
  %1 = load i64, ptr %length.addr, align 8, !tbaa !12
  %cmp = icmp ult i64 %0, %1
  br i1 %cmp, label %for.body, label %for.cond.cleanup

for.cond.cleanup:                                 ; preds = %for.cond
  call void @llvm.lifetime.end.p0(ptr %i) #3
  br label %for.end

for.body:                                         ; preds = %for.cond
  %2 = load ptr, ptr %data.addr, align 8, !tbaa !9
  %3 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx = getelementptr inbounds nuw i8, ptr %2, i64 %3
  %4 = load i8, ptr %arrayidx, align 1, !tbaa !14
  %conv = zext i8 %4 to i32
  %5 = load i32, ptr %hash, align 4, !tbaa !5
  %xor = xor i32 %5, %conv
  store i32 %xor, ptr %hash, align 4, !tbaa !5
  %6 = load i32, ptr %hash, align 4, !tbaa !5
  %mul = mul i32 %6, 16777619
  store i32 %mul, ptr %hash, align 4, !tbaa !5
  %7 = load i64, ptr %i, align 8, !tbaa !12
  %rem = urem i64 %7, 16
  %cmp1 = icmp eq i64 %rem, 15
  br i1 %cmp1, label %if.then, label %if.end

if.then:                                          ; preds = %for.body
  %8 = load i32, ptr %hash, align 4, !tbaa !5
  %call = call i32 @rotate(i32 noundef %8, i32 noundef 13)
  store i32 %call, ptr %hash, align 4, !tbaa !5
  br label %if.end

if.end:                                           ; preds = %if.then, %for.body
  br label %for.inc

for.inc:                                          ; preds = %if.end
  %9 = load i64, ptr %i, align 8, !tbaa !12
  %inc = add i64 %9, 1
  store i64 %inc, ptr %i, align 8, !tbaa !12
  br label %for.cond, !llvm.loop !15

for.end:                                          ; preds = %for.cond.cleanup
  %10 = load i32, ptr %hash, align 4, !tbaa !5
  call void @llvm.lifetime.end.p0(ptr %hash) #3
  ret i32 %10
}

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: readwrite)
declare void @llvm.lifetime.start.p0(ptr captures(none)) #1

; Function Attrs: nounwind uwtable
define internal i32 @rotate(i32 noundef %value, i32 noundef %bits) #0 {
entry:
  %value.addr = alloca i32, align 4
  %bits.addr = alloca i32, align 4
  store i32 %value, ptr %value.addr, align 4, !tbaa !5
  store i32 %bits, ptr %bits.addr, align 4, !tbaa !5
  %0 = load i32, ptr %value.addr, align 4, !tbaa !5
  %1 = load i32, ptr %bits.addr, align 4, !tbaa !5
  %shl = shl i32 %0, %1
  %2 = load i32, ptr %value.addr, align 4, !tbaa !5
  %3 = load i32, ptr %bits.addr, align 4, !tbaa !5
  %sub = sub nsw i32 32, %3
  %shr = lshr i32 %2, %sub
  %or = or i32 %shl, %shr
  ret i32 %or
}

; Function Attrs: nocallback nofree nosync nounwind willreturn memory(argmem: readwrite)
declare void @llvm.lifetime.end.p0(ptr captures(none)) #1

; Function Attrs: nounwind uwtable
define dso_local i64 @count_words(ptr noundef %text, i64 noundef %length) #0 {
entry:
  %text.addr = alloca ptr, align 8
  %length.addr = alloca i64, align 8
  %words = alloca i64, align 8
  %inside = alloca i32, align 4
  %i = alloca i64, align 8
  store ptr %text, ptr %text.addr, align 8, !tbaa !9
  store i64 %length, ptr %length.addr, align 8, !tbaa !12
  call void @llvm.lifetime.start.p0(ptr %words) #3
  store i64 0, ptr %words, align 8, !tbaa !12
  call void @llvm.lifetime.start.p0(ptr %inside) #3
  store i32 0, ptr %inside, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %i) #3
  store i64 0, ptr %i, align 8, !tbaa !12
  br label %for.cond

for.cond:                                         ; preds = %for.inc, %entry
  %0 = load i64, ptr %i, align 8, !tbaa !12
  %1 = load i64, ptr %length.addr, align 8, !tbaa !12
  %cmp = icmp ult i64 %0, %1
  br i1 %cmp, label %for.body, label %for.cond.cleanup

for.cond.cleanup:                                 ; preds = %for.cond
  call void @llvm.lifetime.end.p0(ptr %i) #3
  br label %for.end

for.body:                                         ; preds = %for.cond
  %2 = load ptr, ptr %text.addr, align 8, !tbaa !9
  %3 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx = getelementptr inbounds nuw i8, ptr %2, i64 %3
  %4 = load i8, ptr %arrayidx, align 1, !tbaa !14
  %call = call i32 @is_space(i8 noundef zeroext %4)
  %tobool = icmp ne i32 %call, 0
  br i1 %tobool, label %if.then, label %if.else

if.then:                                          ; preds = %for.body
  store i32 0, ptr %inside, align 4, !tbaa !5
  br label %if.end3

if.else:                                          ; preds = %for.body
  %5 = load i32, ptr %inside, align 4, !tbaa !5
  %tobool1 = icmp ne i32 %5, 0
  br i1 %tobool1, label %if.end, label %if.then2

if.then2:                                         ; preds = %if.else
  store i32 1, ptr %inside, align 4, !tbaa !5
  %6 = load i64, ptr %words, align 8, !tbaa !12
  %inc = add i64 %6, 1
  store i64 %inc, ptr %words, align 8, !tbaa !12
  br label %if.end

if.end:                                           ; preds = %if.then2, %if.else
  br label %if.end3

if.end3:                                          ; preds = %if.end, %if.then
  br label %for.inc

for.inc:                                          ; preds = %if.end3
  %7 = load i64, ptr %i, align 8, !tbaa !12
  %inc4 = add i64 %7, 1
  store i64 %inc4, ptr %i, align 8, !tbaa !12
  br label %for.cond, !llvm.loop !17

for.end:                                          ; preds = %for.cond.cleanup
  %8 = load i64, ptr %words, align 8, !tbaa !12
  call void @llvm.lifetime.end.p0(ptr %inside) #3
  call void @llvm.lifetime.end.p0(ptr %words) #3
  ret i64 %8
}

; Function Attrs: nounwind uwtable
define internal i32 @is_space(i8 noundef zeroext %c) #0 {
entry:
  %c.addr = alloca i8, align 1
  store i8 %c, ptr %c.addr, align 1, !tbaa !14
  %0 = load i8, ptr %c.addr, align 1, !tbaa !14
  %conv = zext i8 %0 to i32
  %cmp = icmp eq i32 %conv, 32
  br i1 %cmp, label %lor.end, label %lor.lhs.false

lor.lhs.false:                                    ; preds = %entry
  %1 = load i8, ptr %c.addr, align 1, !tbaa !14
  %conv2 = zext i8 %1 to i32
  %cmp3 = icmp eq i32 %conv2, 9
  br i1 %cmp3, label %lor.end, label %lor.lhs.false5

lor.lhs.false5:                                   ; preds = %lor.lhs.false
  %2 = load i8, ptr %c.addr, align 1, !tbaa !14
  %conv6 = zext i8 %2 to i32
  %cmp7 = icmp eq i32 %conv6, 10
  br i1 %cmp7, label %lor.end, label %lor.rhs

lor.rhs:                                          ; preds = %lor.lhs.false5
  %3 = load i8, ptr %c.addr, align 1, !tbaa !14
  %conv9 = zext i8 %3 to i32
  %cmp10 = icmp eq i32 %conv9, 13
  br label %lor.end

lor.end:                                          ; preds = %lor.rhs, %lor.lhs.false5, %lor.lhs.false, %entry
  %4 = phi i1 [ true, %lor.lhs.false5 ], [ true, %lor.lhs.false ], [ true, %entry ], [ %cmp10, %lor.rhs ]
  %lor.ext = zext i1 %4 to i32
  ret i32 %lor.ext
}

; Function Attrs: nounwind uwtable
define dso_local i32 @parse_number(ptr noundef %text, i64 noundef %length, ptr noundef %result) #0 {
entry:
  %retval = alloca i32, align 4
  %text.addr = alloca ptr, align 8
  %length.addr = alloca i64, align 8
  %result.addr = alloca ptr, align 8
  %i = alloca i64, align 8
  %negative = alloca i32, align 4
  %value = alloca i64, align 8
  %cleanup.dest.slot = alloca i32, align 4
  store ptr %text, ptr %text.addr, align 8, !tbaa !9
  store i64 %length, ptr %length.addr, align 8, !tbaa !12
  store ptr %result, ptr %result.addr, align 8, !tbaa !18
  call void @llvm.lifetime.start.p0(ptr %i) #3
  store i64 0, ptr %i, align 8, !tbaa !12
  call void @llvm.lifetime.start.p0(ptr %negative) #3
  store i32 0, ptr %negative, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %value) #3
  store i64 0, ptr %value, align 8, !tbaa !12
  br label %while.cond

while.cond:                                       ; preds = %while.body, %entry
  %0 = load i64, ptr %i, align 8, !tbaa !12
  %1 = load i64, ptr %length.addr, align 8, !tbaa !12
  %cmp = icmp ult i64 %0, %1
  br i1 %cmp, label %land.rhs, label %land.end

land.rhs:                                         ; preds = %while.cond
  %2 = load ptr, ptr %text.addr, align 8, !tbaa !9
  %3 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx = getelementptr inbounds nuw i8, ptr %2, i64 %3
  %4 = load i8, ptr %arrayidx, align 1, !tbaa !14
  %call = call i32 @is_space(i8 noundef zeroext %4)
  %tobool = icmp ne i32 %call, 0
  br label %land.end

land.end:                                         ; preds = %land.rhs, %while.cond
  %5 = phi i1 [ false, %while.cond ], [ %tobool, %land.rhs ]
  br i1 %5, label %while.body, label %while.end

while.body:                                       ; preds = %land.end
  %6 = load i64, ptr %i, align 8, !tbaa !12
  %inc = add i64 %6, 1
  store i64 %inc, ptr %i, align 8, !tbaa !12
  br label %while.cond, !llvm.loop !20

while.end:                                        ; preds = %land.end
  %7 = load i64, ptr %i, align 8, !tbaa !12
  %8 = load i64, ptr %length.addr, align 8, !tbaa !12
  %cmp1 = icmp ult i64 %7, %8
  br i1 %cmp1, label %land.lhs.true, label %if.end

land.lhs.true:                                    ; preds = %while.end
  %9 = load ptr, ptr %text.addr, align 8, !tbaa !9
  %10 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx2 = getelementptr inbounds nuw i8, ptr %9, i64 %10
  %11 = load i8, ptr %arrayidx2, align 1, !tbaa !14
  %conv = zext i8 %11 to i32
  %cmp3 = icmp eq i32 %conv, 45
  br i1 %cmp3, label %if.then, label %lor.lhs.false

lor.lhs.false:                                    ; preds = %land.lhs.true
  %12 = load ptr, ptr %text.addr, align 8, !tbaa !9
  %13 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx5 = getelementptr inbounds nuw i8, ptr %12, i64 %13
  %14 = load i8, ptr %arrayidx5, align 1, !tbaa !14
  %conv6 = zext i8 %14 to i32
  %cmp7 = icmp eq i32 %conv6, 43
  br i1 %cmp7, label %if.then, label %if.end

if.then:                                          ; preds = %lor.lhs.false, %land.lhs.true
  %15 = load ptr, ptr %text.addr, align 8, !tbaa !9
  %16 = load i64, ptr %i, align 8, !tbaa !12
  %inc9 = add i64 %16, 1
  store i64 %inc9, ptr %i, align 8, !tbaa !12
  %arrayidx10 = getelementptr inbounds nuw i8, ptr %15, i64 %16
  %17 = load i8, ptr %arrayidx10, align 1, !tbaa !14
  %conv11 = zext i8 %17 to i32
  %cmp12 = icmp eq i32 %conv11, 45
  %conv13 = zext i1 %cmp12 to i32
  store i32 %conv13, ptr %negative, align 4, !tbaa !5
  br label %if.end

if.end:                                           ; preds = %if.then, %lor.lhs.false, %while.end
  %18 = load i64, ptr %i, align 8, !tbaa !12
  %19 = load i64, ptr %length.addr, align 8, !tbaa !12
  %cmp14 = icmp eq i64 %18, %19
  br i1 %cmp14, label %if.then20, label %lor.lhs.false16

lor.lhs.false16:                                  ; preds = %if.end
  %20 = load ptr, ptr %text.addr, align 8, !tbaa !9
  %21 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx17 = getelementptr inbounds nuw i8, ptr %20, i64 %21
  %22 = load i8, ptr %arrayidx17, align 1, !tbaa !14
  %call18 = call i32 @is_digit(i8 noundef zeroext %22)
  %tobool19 = icmp ne i32 %call18, 0
  br i1 %tobool19, label %if.end21, label %if.then20

if.then20:                                        ; preds = %lor.lhs.false16, %if.end
  store i32 0, ptr %retval, align 4
  store i32 1, ptr %cleanup.dest.slot, align 4
  br label %cleanup

if.end21:                                         ; preds = %lor.lhs.false16
  br label %for.cond

for.cond:                                         ; preds = %for.inc, %if.end21
  %23 = load i64, ptr %i, align 8, !tbaa !12
  %24 = load i64, ptr %length.addr, align 8, !tbaa !12
  %cmp22 = icmp ult i64 %23, %24
  br i1 %cmp22, label %land.rhs24, label %land.end28

land.rhs24:                                       ; preds = %for.cond
  %25 = load ptr, ptr %text.addr, align 8, !tbaa !9
  %26 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx25 = getelementptr inbounds nuw i8, ptr %25, i64 %26
  %27 = load i8, ptr %arrayidx25, align 1, !tbaa !14
  %call26 = call i32 @is_digit(i8 noundef zeroext %27)
  %tobool27 = icmp ne i32 %call26, 0
  br label %land.end28

land.end28:                                       ; preds = %land.rhs24, %for.cond
  %28 = phi i1 [ false, %for.cond ], [ %tobool27, %land.rhs24 ]
  br i1 %28, label %for.body, label %for.end

for.body:                                         ; preds = %land.end28
  %29 = load i64, ptr %value, align 8, !tbaa !12
  %mul = mul nsw i64 %29, 10
  %30 = load ptr, ptr %text.addr, align 8, !tbaa !9
  %31 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx29 = getelementptr inbounds nuw i8, ptr %30, i64 %31
  %32 = load i8, ptr %arrayidx29, align 1, !tbaa !14
  %conv30 = zext i8 %32 to i32
  %sub = sub nsw i32 %conv30, 48
  %conv31 = sext i32 %sub to i64
  %add = add nsw i64 %mul, %conv31
  store i64 %add, ptr %value, align 8, !tbaa !12
  br label %for.inc

for.inc:                                          ; preds = %for.body
  %33 = load i64, ptr %i, align 8, !tbaa !12
  %inc32 = add i64 %33, 1
  store i64 %inc32, ptr %i, align 8, !tbaa !12
  br label %for.cond, !llvm.loop !21

for.end:                                          ; preds = %land.end28
  %34 = load i32, ptr %negative, align 4, !tbaa !5
  %tobool33 = icmp ne i32 %34, 0
  br i1 %tobool33, label %cond.true, label %cond.false

cond.true:                                        ; preds = %for.end
  %35 = load i64, ptr %value, align 8, !tbaa !12
  %sub34 = sub nsw i64 0, %35
  br label %cond.end

cond.false:                                       ; preds = %for.end
  %36 = load i64, ptr %value, align 8, !tbaa !12
  br label %cond.end

cond.end:                                         ; preds = %cond.false, %cond.true
  %cond = phi i64 [ %sub34, %cond.true ], [ %36, %cond.false ]
  %37 = load ptr, ptr %result.addr, align 8, !tbaa !18
  store i64 %cond, ptr %37, align 8, !tbaa !12
  store i32 1, ptr %retval, align 4
  store i32 1, ptr %cleanup.dest.slot, align 4
  br label %cleanup

cleanup:                                          ; preds = %cond.end, %if.then20
  call void @llvm.lifetime.end.p0(ptr %value) #3
  call void @llvm.lifetime.end.p0(ptr %negative) #3
  call void @llvm.lifetime.end.p0(ptr %i) #3
  %38 = load i32, ptr %retval, align 4
  ret i32 %38
}

; Function Attrs: nounwind uwtable
define internal i32 @is_digit(i8 noundef zeroext %c) #0 {
entry:
  %c.addr = alloca i8, align 1
  store i8 %c, ptr %c.addr, align 1, !tbaa !14
  %0 = load i8, ptr %c.addr, align 1, !tbaa !14
  %conv = zext i8 %0 to i32
  %cmp = icmp sge i32 %conv, 48
  br i1 %cmp, label %land.rhs, label %land.end

land.rhs:                                         ; preds = %entry
  %1 = load i8, ptr %c.addr, align 1, !tbaa !14
  %conv2 = zext i8 %1 to i32
  %cmp3 = icmp sle i32 %conv2, 57
  br label %land.end

land.end:                                         ; preds = %land.rhs, %entry
  %2 = phi i1 [ false, %entry ], [ %cmp3, %land.rhs ]
  %land.ext = zext i1 %2 to i32
  ret i32 %land.ext
}

; Function Attrs: nounwind uwtable
define dso_local void @sort_words(ptr noundef %data, i64 noundef %length) #0 {
entry:
  %data.addr = alloca ptr, align 8
  %length.addr = alloca i64, align 8
  %gap = alloca i64, align 8
  %cleanup.dest.slot = alloca i32, align 4
  %i = alloca i64, align 8
  %value = alloca i32, align 4
  %j = alloca i64, align 8
  store ptr %data, ptr %data.addr, align 8, !tbaa !22
  store i64 %length, ptr %length.addr, align 8, !tbaa !12
  call void @llvm.lifetime.start.p0(ptr %gap) #3
  %0 = load i64, ptr %length.addr, align 8, !tbaa !12
  %div = udiv i64 %0, 2
  store i64 %div, ptr %gap, align 8, !tbaa !12
  br label %for.cond

for.cond:                                         ; preds = %for.inc17, %entry
  %1 = load i64, ptr %gap, align 8, !tbaa !12
  %cmp = icmp ugt i64 %1, 0
  br i1 %cmp, label %for.body, label %for.cond.cleanup

for.cond.cleanup:                                 ; preds = %for.cond
  store i32 2, ptr %cleanup.dest.slot, align 4
  call void @llvm.lifetime.end.p0(ptr %gap) #3
  br label %for.end19

for.body:                                         ; preds = %for.cond
  call void @llvm.lifetime.start.p0(ptr %i) #3
  %2 = load i64, ptr %gap, align 8, !tbaa !12
  store i64 %2, ptr %i, align 8, !tbaa !12
  br label %for.cond1

for.cond1:                                        ; preds = %for.inc15, %for.body
  %3 = load i64, ptr %i, align 8, !tbaa !12
  %4 = load i64, ptr %length.addr, align 8, !tbaa !12
  %cmp2 = icmp ult i64 %3, %4
  br i1 %cmp2, label %for.body4, label %for.cond.cleanup3

for.cond.cleanup3:                                ; preds = %for.cond1
  store i32 5, ptr %cleanup.dest.slot, align 4
  call void @llvm.lifetime.end.p0(ptr %i) #3
  br label %for.end16

for.body4:                                        ; preds = %for.cond1
  call void @llvm.lifetime.start.p0(ptr %value) #3
  %5 = load ptr, ptr %data.addr, align 8, !tbaa !22
  %6 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx = getelementptr inbounds nuw i32, ptr %5, i64 %6
  %7 = load i32, ptr %arrayidx, align 4, !tbaa !5
  store i32 %7, ptr %value, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %j) #3
  %8 = load i64, ptr %i, align 8, !tbaa !12
  store i64 %8, ptr %j, align 8, !tbaa !12
  br label %for.cond5

for.cond5:                                        ; preds = %for.inc, %for.body4
  %9 = load i64, ptr %j, align 8, !tbaa !12
  %10 = load i64, ptr %gap, align 8, !tbaa !12
  %cmp6 = icmp uge i64 %9, %10
  br i1 %cmp6, label %land.rhs, label %land.end

land.rhs:                                         ; preds = %for.cond5
  %11 = load ptr, ptr %data.addr, align 8, !tbaa !22
  %12 = load i64, ptr %j, align 8, !tbaa !12
  %13 = load i64, ptr %gap, align 8, !tbaa !12
  %sub = sub i64 %12, %13
  %arrayidx7 = getelementptr inbounds nuw i32, ptr %11, i64 %sub
  %14 = load i32, ptr %arrayidx7, align 4, !tbaa !5
  %15 = load i32, ptr %value, align 4, !tbaa !5
  %cmp8 = icmp ugt i32 %14, %15
  br label %land.end

land.end:                                         ; preds = %land.rhs, %for.cond5
  %16 = phi i1 [ false, %for.cond5 ], [ %cmp8, %land.rhs ]
  br i1 %16, label %for.body9, label %for.end

for.body9:                                        ; preds = %land.end
  %17 = load ptr, ptr %data.addr, align 8, !tbaa !22
  %18 = load i64, ptr %j, align 8, !tbaa !12
  %19 = load i64, ptr %gap, align 8, !tbaa !12
  %sub10 = sub i64 %18, %19
  %arrayidx11 = getelementptr inbounds nuw i32, ptr %17, i64 %sub10
  %20 = load i32, ptr %arrayidx11, align 4, !tbaa !5
  %21 = load ptr, ptr %data.addr, align 8, !tbaa !22
  %22 = load i64, ptr %j, align 8, !tbaa !12
  %arrayidx12 = getelementptr inbounds nuw i32, ptr %21, i64 %22
  store i32 %20, ptr %arrayidx12, align 4, !tbaa !5
  br label %for.inc

for.inc:                                          ; preds = %for.body9
  %23 = load i64, ptr %gap, align 8, !tbaa !12
  %24 = load i64, ptr %j, align 8, !tbaa !12
  %sub13 = sub i64 %24, %23
  store i64 %sub13, ptr %j, align 8, !tbaa !12
  br label %for.cond5, !llvm.loop !24

for.end:                                          ; preds = %land.end
  %25 = load i32, ptr %value, align 4, !tbaa !5
  %26 = load ptr, ptr %data.addr, align 8, !tbaa !22
  %27 = load i64, ptr %j, align 8, !tbaa !12
  %arrayidx14 = getelementptr inbounds nuw i32, ptr %26, i64 %27
  store i32 %25, ptr %arrayidx14, align 4, !tbaa !5
  call void @llvm.lifetime.end.p0(ptr %j) #3
  call void @llvm.lifetime.end.p0(ptr %value) #3
  br label %for.inc15

for.inc15:                                        ; preds = %for.end
  %28 = load i64, ptr %i, align 8, !tbaa !12
  %inc = add i64 %28, 1
  store i64 %inc, ptr %i, align 8, !tbaa !12
  br label %for.cond1, !llvm.loop !25

for.end16:                                        ; preds = %for.cond.cleanup3
  br label %for.inc17

for.inc17:                                        ; preds = %for.end16
  %29 = load i64, ptr %gap, align 8, !tbaa !12
  %div18 = udiv i64 %29, 2
  store i64 %div18, ptr %gap, align 8, !tbaa !12
  br label %for.cond, !llvm.loop !26

for.end19:                                        ; preds = %for.cond.cleanup
  ret void
}

; Function Attrs: nounwind uwtable
define dso_local i64 @find_word(ptr noundef %data, i64 noundef %length, i32 noundef %value) #0 {
entry:
  %retval = alloca i64, align 8
  %data.addr = alloca ptr, align 8
  %length.addr = alloca i64, align 8
  %value.addr = alloca i32, align 4
  %low = alloca i64, align 8
  %high = alloca i64, align 8
  %middle = alloca i64, align 8
  %cleanup.dest.slot = alloca i32, align 4
  store ptr %data, ptr %data.addr, align 8, !tbaa !22
  store i64 %length, ptr %length.addr, align 8, !tbaa !12
  store i32 %value, ptr %value.addr, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %low) #3
  store i64 0, ptr %low, align 8, !tbaa !12
  call void @llvm.lifetime.start.p0(ptr %high) #3
  %0 = load i64, ptr %length.addr, align 8, !tbaa !12
  store i64 %0, ptr %high, align 8, !tbaa !12
  br label %while.cond

while.cond:                                       ; preds = %cleanup.cont, %entry
  %1 = load i64, ptr %low, align 8, !tbaa !12
  %2 = load i64, ptr %high, align 8, !tbaa !12
  %cmp = icmp ult i64 %1, %2
  br i1 %cmp, label %while.body, label %while.end

while.body:                                       ; preds = %while.cond
  call void @llvm.lifetime.start.p0(ptr %middle) #3
  %3 = load i64, ptr %low, align 8, !tbaa !12
  %4 = load i64, ptr %high, align 8, !tbaa !12
  %5 = load i64, ptr %low, align 8, !tbaa !12
  %sub = sub i64 %4, %5
  %div = udiv i64 %sub, 2
  %add = add i64 %3, %div
  store i64 %add, ptr %middle, align 8, !tbaa !12
  %6 = load ptr, ptr %data.addr, align 8, !tbaa !22
  %7 = load i64, ptr %middle, align 8, !tbaa !12
  %arrayidx = getelementptr inbounds nuw i32, ptr %6, i64 %7
  %8 = load i32, ptr %arrayidx, align 4, !tbaa !5
  %9 = load i32, ptr %value.addr, align 4, !tbaa !5
  %cmp1 = icmp eq i32 %8, %9
  br i1 %cmp1, label %if.then, label %if.end

if.then:                                          ; preds = %while.body
  %10 = load i64, ptr %middle, align 8, !tbaa !12
  store i64 %10, ptr %retval, align 8
  store i32 1, ptr %cleanup.dest.slot, align 4
  br label %cleanup

if.end:                                           ; preds = %while.body
  %11 = load ptr, ptr %data.addr, align 8, !tbaa !22
  %12 = load i64, ptr %middle, align 8, !tbaa !12
  %arrayidx2 = getelementptr inbounds nuw i32, ptr %11, i64 %12
  %13 = load i32, ptr %arrayidx2, align 4, !tbaa !5
  %14 = load i32, ptr %value.addr, align 4, !tbaa !5
  %cmp3 = icmp ult i32 %13, %14
  br i1 %cmp3, label %if.then4, label %if.else

if.then4:                                         ; preds = %if.end
  %15 = load i64, ptr %middle, align 8, !tbaa !12
  %add5 = add i64 %15, 1
  store i64 %add5, ptr %low, align 8, !tbaa !12
  br label %if.end6

if.else:                                          ; preds = %if.end
  %16 = load i64, ptr %middle, align 8, !tbaa !12
  store i64 %16, ptr %high, align 8, !tbaa !12
  br label %if.end6

if.end6:                                          ; preds = %if.else, %if.then4
  store i32 0, ptr %cleanup.dest.slot, align 4
  br label %cleanup

cleanup:                                          ; preds = %if.end6, %if.then
  call void @llvm.lifetime.end.p0(ptr %middle) #3
  %cleanup.dest = load i32, ptr %cleanup.dest.slot, align 4
  switch i32 %cleanup.dest, label %cleanup7 [
    i32 0, label %cleanup.cont
  ]

cleanup.cont:                                     ; preds = %cleanup
  br label %while.cond, !llvm.loop !27

while.end:                                        ; preds = %while.cond
  store i64 -1, ptr %retval, align 8
  store i32 1, ptr %cleanup.dest.slot, align 4
  br label %cleanup7

cleanup7:                                         ; preds = %while.end, %cleanup
  call void @llvm.lifetime.end.p0(ptr %high) #3
  call void @llvm.lifetime.end.p0(ptr %low) #3
  %17 = load i64, ptr %retval, align 8
  ret i64 %17
}

; Function Attrs: nounwind uwtable
define dso_local void @multiply(ptr noundef %a, ptr noundef %b, ptr noundef %c, i32 noundef %n) #0 {
entry:
  %a.addr = alloca ptr, align 8
  %b.addr = alloca ptr, align 8
  %c.addr = alloca ptr, align 8
  %n.addr = alloca i32, align 4
  %i = alloca i32, align 4
  %cleanup.dest.slot = alloca i32, align 4
  %j = alloca i32, align 4
  %total = alloca double, align 8
  %k = alloca i32, align 4
  store ptr %a, ptr %a.addr, align 8, !tbaa !28
  store ptr %b, ptr %b.addr, align 8, !tbaa !28
  store ptr %c, ptr %c.addr, align 8, !tbaa !28
  store i32 %n, ptr %n.addr, align 4, !tbaa !5
  call void @llvm.lifetime.start.p0(ptr %i) #3
  store i32 0, ptr %i, align 4, !tbaa !5
  br label %for.cond

for.cond:                                         ; preds = %for.inc21, %entry
  %0 = load i32, ptr %i, align 4, !tbaa !5
  %1 = load i32, ptr %n.addr, align 4, !tbaa !5
  %cmp = icmp slt i32 %0, %1
  br i1 %cmp, label %for.body, label %for.cond.cleanup

for.cond.cleanup:                                 ; preds = %for.cond
  store i32 2, ptr %cleanup.dest.slot, align 4
  call void @llvm.lifetime.end.p0(ptr %i) #3
  br label %for.end23

for.body:                                         ; preds = %for.cond
  call void @llvm.lifetime.start.p0(ptr %j) #3
  store i32 0, ptr %j, align 4, !tbaa !5
  br label %for.cond1

for.cond1:                                        ; preds = %for.inc18, %for.body
  %2 = load i32, ptr %j, align 4, !tbaa !5
  %3 = load i32, ptr %n.addr, align 4, !tbaa !5
  %cmp2 = icmp slt i32 %2, %3
  br i1 %cmp2, label %for.body4, label %for.cond.cleanup3

for.cond.cleanup3:                                ; preds = %for.cond1
  store i32 5, ptr %cleanup.dest.slot, align 4
  call void @llvm.lifetime.end.p0(ptr %j) #3
  br label %for.end20

for.body4:                                        ; preds = %for.cond1
  call void @llvm.lifetime.start.p0(ptr %total) #3
  store double 0.000000e+00, ptr %total, align 8, !tbaa !30
  call void @llvm.lifetime.start.p0(ptr %k) #3
  store i32 0, ptr %k, align 4, !tbaa !5
  br label %for.cond5

for.cond5:                                        ; preds = %for.inc, %for.body4
  %4 = load i32, ptr %k, align 4, !tbaa !5
  %5 = load i32, ptr %n.addr, align 4, !tbaa !5
  %cmp6 = icmp slt i32 %4, %5
  br i1 %cmp6, label %for.body8, label %for.cond.cleanup7

for.cond.cleanup7:                                ; preds = %for.cond5
  store i32 8, ptr %cleanup.dest.slot, align 4
  call void @llvm.lifetime.end.p0(ptr %k) #3
  br label %for.end

for.body8:                                        ; preds = %for.cond5
  %6 = load ptr, ptr %a.addr, align 8, !tbaa !28
  %7 = load i32, ptr %i, align 4, !tbaa !5
  %8 = load i32, ptr %n.addr, align 4, !tbaa !5
  %mul = mul nsw i32 %7, %8
  %9 = load i32, ptr %k, align 4, !tbaa !5
  %add = add nsw i32 %mul, %9
  %idxprom = sext i32 %add to i64
  %arrayidx = getelementptr inbounds double, ptr %6, i64 %idxprom
  %10 = load double, ptr %arrayidx, align 8, !tbaa !30
  %11 = load ptr, ptr %b.addr, align 8, !tbaa !28
  %12 = load i32, ptr %k, align 4, !tbaa !5
  %13 = load i32, ptr %n.addr, align 4, !tbaa !5
  %mul9 = mul nsw i32 %12, %13
  %14 = load i32, ptr %j, align 4, !tbaa !5
  %add10 = add nsw i32 %mul9, %14
  %idxprom11 = sext i32 %add10 to i64
  %arrayidx12 = getelementptr inbounds double, ptr %11, i64 %idxprom11
  %15 = load double, ptr %arrayidx12, align 8, !tbaa !30
  %16 = load double, ptr %total, align 8, !tbaa !30
  %17 = call double @llvm.fmuladd.f64(double %10, double %15, double %16)
  store double %17, ptr %total, align 8, !tbaa !30
  br label %for.inc

for.inc:                                          ; preds = %for.body8
  %18 = load i32, ptr %k, align 4, !tbaa !5
  %inc = add nsw i32 %18, 1
  store i32 %inc, ptr %k, align 4, !tbaa !5
  br label %for.cond5, !llvm.loop !32

for.end:                                          ; preds = %for.cond.cleanup7
  %19 = load double, ptr %total, align 8, !tbaa !30
  %20 = load ptr, ptr %c.addr, align 8, !tbaa !28
  %21 = load i32, ptr %i, align 4, !tbaa !5
  %22 = load i32, ptr %n.addr, align 4, !tbaa !5
  %mul14 = mul nsw i32 %21, %22
  %23 = load i32, ptr %j, align 4, !tbaa !5
  %add15 = add nsw i32 %mul14, %23
  %idxprom16 = sext i32 %add15 to i64
  %arrayidx17 = getelementptr inbounds double, ptr %20, i64 %idxprom16
  store double %19, ptr %arrayidx17, align 8, !tbaa !30
  call void @llvm.lifetime.end.p0(ptr %total) #3
  br label %for.inc18

for.inc18:                                        ; preds = %for.end
  %24 = load i32, ptr %j, align 4, !tbaa !5
  %inc19 = add nsw i32 %24, 1
  store i32 %inc19, ptr %j, align 4, !tbaa !5
  br label %for.cond1, !llvm.loop !33

for.end20:                                        ; preds = %for.cond.cleanup3
  br label %for.inc21

for.inc21:                                        ; preds = %for.end20
  %25 = load i32, ptr %i, align 4, !tbaa !5
  %inc22 = add nsw i32 %25, 1
  store i32 %inc22, ptr %i, align 4, !tbaa !5
  br label %for.cond, !llvm.loop !34

for.end23:                                        ; preds = %for.cond.cleanup
  ret void
}

; Function Attrs: nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none)
declare double @llvm.fmuladd.f64(double, double, double) #2

; Function Attrs: nounwind uwtable
define dso_local i32 @decode(i8 noundef zeroext %opcode, i32 noundef %a, i32 noundef %b) #0 {
entry:
  %retval = alloca i32, align 4
  %opcode.addr = alloca i8, align 1
  %a.addr = alloca i32, align 4
  %b.addr = alloca i32, align 4
  store i8 %opcode, ptr %opcode.addr, align 1, !tbaa !14
  store i32 %a, ptr %a.addr, align 4, !tbaa !5
  store i32 %b, ptr %b.addr, align 4, !tbaa !5
  %0 = load i8, ptr %opcode.addr, align 1, !tbaa !14
  %conv = zext i8 %0 to i32
  switch i32 %conv, label %sw.default [
    i32 0, label %sw.bb
    i32 1, label %sw.bb1
    i32 2, label %sw.bb2
    i32 3, label %sw.bb3
    i32 4, label %sw.bb4
    i32 5, label %sw.bb5
    i32 6, label %sw.bb6
    i32 7, label %sw.bb7
    i32 8, label %sw.bb9
    i32 9, label %sw.bb11
    i32 10, label %sw.bb17
  ]

sw.bb:                                            ; preds = %entry
  %1 = load i32, ptr %a.addr, align 4, !tbaa !5
  %2 = load i32, ptr %b.addr, align 4, !tbaa !5
  %add = add nsw i32 %1, %2
  store i32 %add, ptr %retval, align 4
  br label %return

sw.bb1:                                           ; preds = %entry
  %3 = load i32, ptr %a.addr, align 4, !tbaa !5
  %4 = load i32, ptr %b.addr, align 4, !tbaa !5
  %sub = sub nsw i32 %3, %4
  store i32 %sub, ptr %retval, align 4
  br label %return

sw.bb2:                                           ; preds = %entry
  %5 = load i32, ptr %a.addr, align 4, !tbaa !5
  %6 = load i32, ptr %b.addr, align 4, !tbaa !5
  %mul = mul nsw i32 %5, %6
  store i32 %mul, ptr %retval, align 4
  br label %return

sw.bb3:                                           ; preds = %entry
  %7 = load i32, ptr %b.addr, align 4, !tbaa !5
  %tobool = icmp ne i32 %7, 0
  br i1 %tobool, label %cond.true, label %cond.false

cond.true:                                        ; preds = %sw.bb3
  %8 = load i32, ptr %a.addr, align 4, !tbaa !5
  %9 = load i32, ptr %b.addr, align 4, !tbaa !5
  %div = sdiv i32 %8, %9
  br label %cond.end

cond.false:                                       ; preds = %sw.bb3
  br label %cond.end

cond.end:                                         ; preds = %cond.false, %cond.true
  %cond = phi i32 [ %div, %cond.true ], [ 0, %cond.false ]
  store i32 %cond, ptr %retval, align 4
  br label %return

sw.bb4:                                           ; preds = %entry
  %10 = load i32, ptr %a.addr, align 4, !tbaa !5
  %11 = load i32, ptr %b.addr, align 4, !tbaa !5
  %and = and i32 %10, %11
  store i32 %and, ptr %retval, align 4
  br label %return

sw.bb5:                                           ; preds = %entry
  %12 = load i32, ptr %a.addr, align 4, !tbaa !5
  %13 = load i32, ptr %b.addr, align 4, !tbaa !5
  %or = or i32 %12, %13
  store i32 %or, ptr %retval, align 4
  br label %return

sw.bb6:                                           ; preds = %entry
  %14 = load i32, ptr %a.addr, align 4, !tbaa !5
  %15 = load i32, ptr %b.addr, align 4, !tbaa !5
  %xor = xor i32 %14, %15
  store i32 %xor, ptr %retval, align 4
  br label %return

sw.bb7:                                           ; preds = %entry
  %16 = load i32, ptr %a.addr, align 4, !tbaa !5
  %17 = load i32, ptr %b.addr, align 4, !tbaa !5
  %and8 = and i32 %17, 31
  %shl = shl i32 %16, %and8
  store i32 %shl, ptr %retval, align 4
  br label %return

sw.bb9:                                           ; preds = %entry
  %18 = load i32, ptr %a.addr, align 4, !tbaa !5
  %19 = load i32, ptr %b.addr, align 4, !tbaa !5
  %and10 = and i32 %19, 31
  %shr = ashr i32 %18, %and10
  store i32 %shr, ptr %retval, align 4
  br label %return

sw.bb11:                                          ; preds = %entry
  %20 = load i32, ptr %a.addr, align 4, !tbaa !5
  %21 = load i32, ptr %b.addr, align 4, !tbaa !5
  %cmp = icmp slt i32 %20, %21
  br i1 %cmp, label %cond.true13, label %cond.false14

cond.true13:                                      ; preds = %sw.bb11
  %22 = load i32, ptr %a.addr, align 4, !tbaa !5
  br label %cond.end15

cond.false14:                                     ; preds = %sw.bb11
  %23 = load i32, ptr %b.addr, align 4, !tbaa !5
  br label %cond.end15

cond.end15:                                       ; preds = %cond.false14, %cond.true13
  %cond16 = phi i32 [ %22, %cond.true13 ], [ %23, %cond.false14 ]
  store i32 %cond16, ptr %retval, align 4
  br label %return

sw.bb17:                                          ; preds = %entry
  %24 = load i32, ptr %a.addr, align 4, !tbaa !5
  %25 = load i32, ptr %b.addr, align 4, !tbaa !5
  %cmp18 = icmp sgt i32 %24, %25
  br i1 %cmp18, label %cond.true20, label %cond.false21

cond.true20:                                      ; preds = %sw.bb17
  %26 = load i32, ptr %a.addr, align 4, !tbaa !5
  br label %cond.end22

cond.false21:                                     ; preds = %sw.bb17
  %27 = load i32, ptr %b.addr, align 4, !tbaa !5
  br label %cond.end22

cond.end22:                                       ; preds = %cond.false21, %cond.true20
  %cond23 = phi i32 [ %26, %cond.true20 ], [ %27, %cond.false21 ]
  store i32 %cond23, ptr %retval, align 4
  br label %return

sw.default:                                       ; preds = %entry
  store i32 0, ptr %retval, align 4
  br label %return

return:                                           ; preds = %sw.default, %cond.end22, %cond.end15, %sw.bb9, %sw.bb7, %sw.bb6, %sw.bb5, %sw.bb4, %cond.end, %sw.bb2, %sw.bb1, %sw.bb
  %28 = load i32, ptr %retval, align 4
  ret i32 %28
}

; Function Attrs: nounwind uwtable
define dso_local i32 @run(ptr noundef %program, i64 noundef %length, ptr noundef %stack) #0 {
entry:
  %program.addr = alloca ptr, align 8
  %length.addr = alloca i64, align 8
  %stack.addr = alloca ptr, align 8
  %top = alloca i64, align 8
  %i = alloca i64, align 8
  %left = alloca i32, align 4
  store ptr %program, ptr %program.addr, align 8, !tbaa !9
  store i64 %length, ptr %length.addr, align 8, !tbaa !12
  store ptr %stack, ptr %stack.addr, align 8, !tbaa !22
  call void @llvm.lifetime.start.p0(ptr %top) #3
  store i64 0, ptr %top, align 8, !tbaa !12
  call void @llvm.lifetime.start.p0(ptr %i) #3
  store i64 0, ptr %i, align 8, !tbaa !12
  br label %for.cond

for.cond:                                         ; preds = %for.inc, %entry
  %0 = load i64, ptr %i, align 8, !tbaa !12
  %add = add i64 %0, 1
  %1 = load i64, ptr %length.addr, align 8, !tbaa !12
  %cmp = icmp ult i64 %add, %1
  br i1 %cmp, label %for.body, label %for.cond.cleanup

for.cond.cleanup:                                 ; preds = %for.cond
  call void @llvm.lifetime.end.p0(ptr %i) #3
  br label %for.end

for.body:                                         ; preds = %for.cond
  call void @llvm.lifetime.start.p0(ptr %left) #3
  %2 = load i64, ptr %top, align 8, !tbaa !12
  %cmp1 = icmp ugt i64 %2, 0
  br i1 %cmp1, label %cond.true, label %cond.false

cond.true:                                        ; preds = %for.body
  %3 = load ptr, ptr %stack.addr, align 8, !tbaa !22
  %4 = load i64, ptr %top, align 8, !tbaa !12
  %sub = sub i64 %4, 1
  %arrayidx = getelementptr inbounds nuw i32, ptr %3, i64 %sub
  %5 = load i32, ptr %arrayidx, align 4, !tbaa !5
  br label %cond.end

cond.false:                                       ; preds = %for.body
  br label %cond.end

cond.end:                                         ; preds = %cond.false, %cond.true
  %cond = phi i32 [ %5, %cond.true ], [ 0, %cond.false ]
  store i32 %cond, ptr %left, align 4, !tbaa !5
  %6 = load ptr, ptr %program.addr, align 8, !tbaa !9
  %7 = load i64, ptr %i, align 8, !tbaa !12
  %arrayidx2 = getelementptr inbounds nuw i8, ptr %6, i64 %7
  %8 = load i8, ptr %arrayidx2, align 1, !tbaa !14
  %9 = load i32, ptr %left, align 4, !tbaa !5
  %10 = load ptr, ptr %program.addr, align 8, !tbaa !9
  %11 = load i64, ptr %i, align 8, !tbaa !12
  %add3 = add i64 %11, 1
  %arrayidx4 = getelementptr inbounds nuw i8, ptr %10, i64 %add3
  %12 = load i8, ptr %arrayidx4, align 1, !tbaa !14
  %conv = zext i8 %12 to i32
  %call = call i32 @decode(i8 noundef zeroext %8, i32 noundef %9, i32 noundef %conv)
  %13 = load ptr, ptr %stack.addr, align 8, !tbaa !22
  %14 = load i64, ptr %top, align 8, !tbaa !12
  %arrayidx5 = getelementptr inbounds nuw i32, ptr %13, i64 %14
  store i32 %call, ptr %arrayidx5, align 4, !tbaa !5
  %15 = load i64, ptr %top, align 8, !tbaa !12
  %cmp6 = icmp ult i64 %15, 31
  br i1 %cmp6, label %if.then, label %if.end

if.then:                                          ; preds = %cond.end
  %16 = load i64, ptr %top, align 8, !tbaa !12
  %inc = add i64 %16, 1
  store i64 %inc, ptr %top, align 8, !tbaa !12
  br label %if.end

if.end:                                           ; preds = %if.then, %cond.end
  call void @llvm.lifetime.end.p0(ptr %left) #3
  br label %for.inc

for.inc:                                          ; preds = %if.end
  %17 = load i64, ptr %i, align 8, !tbaa !12
  %add8 = add i64 %17, 2
  store i64 %add8, ptr %i, align 8, !tbaa !12
  br label %for.cond, !llvm.loop !35

for.end:                                          ; preds = %for.cond.cleanup
  %18 = load ptr, ptr %stack.addr, align 8, !tbaa !22
  %19 = load i64, ptr %top, align 8, !tbaa !12
  %mul = mul i64 %19, 4
  %call9 = call i32 @hash_bytes(ptr noundef %18, i64 noundef %mul)
  call void @llvm.lifetime.end.p0(ptr %top) #3
  ret i32 %call9
}

attributes #0 = { nounwind uwtable "min-legal-vector-width"="0" "no-trapping-math"="true" "stack-protector-buffer-size"="8" "target-cpu"="x86-64" "target-features"="+cmov,+cx8,+fxsr,+mmx,+sse,+sse2,+x87" "tune-cpu"="generic" }
attributes #1 = { nocallback nofree nosync nounwind willreturn memory(argmem: readwrite) }
attributes #2 = { nocallback nocreateundeforpoison nofree nosync nounwind speculatable willreturn memory(none) }
attributes #3 = { nounwind }

!llvm.module.flags = !{!0, !1, !2, !3}
!llvm.errno.tbaa = !{!5}

!0 = !{i32 1, !"wchar_size", i32 4}
!1 = !{i32 8, !"PIC Level", i32 2}
!2 = !{i32 7, !"PIE Level", i32 2}
!3 = !{i32 7, !"uwtable", i32 2}
!5 = !{!6, !6, i64 0}
!6 = !{!"int", !7, i64 0}
!7 = !{!"omnipotent char", !8, i64 0}
!8 = !{!"Simple C/C++ TBAA"}
!9 = !{!10, !10, i64 0}
!10 = !{!"p1 omnipotent char", !11, i64 0}
!11 = !{!"any pointer", !7, i64 0}
!12 = !{!13, !13, i64 0}
!13 = !{!"long", !7, i64 0}
!14 = !{!7, !7, i64 0}
!15 = distinct !{!15, !16}
!16 = !{!"llvm.loop.mustprogress"}
!17 = distinct !{!17, !16}
!18 = !{!19, !19, i64 0}
!19 = !{!"p1 long", !11, i64 0}
!20 = distinct !{!20, !16}
!21 = distinct !{!21, !16}
!22 = !{!23, !23, i64 0}
!23 = !{!"p1 int", !11, i64 0}
!24 = distinct !{!24, !16}
!25 = distinct !{!25, !16}
!26 = distinct !{!26, !16}
!27 = distinct !{!27, !16}
!28 = !{!29, !29, i64 0}
!29 = !{!"p1 double", !11, i64 0}
!30 = !{!31, !31, i64 0}
!31 = !{!"double", !7, i64 0}
!32 = distinct !{!32, !16}
!33 = distinct !{!33, !16}
!34 = distinct !{!34, !16}
!35 = distinct !{!35, !16}
